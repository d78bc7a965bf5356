// The DAG op for sentences whose edges fit on one multiprocessor: one block a sentence, one launch a pass, links read
// from global memory once. dag_cuda_tiles.cuh says how a block shares out the work.
#pragma once

#include "dag_cuda_tiles.cuh"

namespace exlm {

// log_prob and alpha (SUM_OF_PATHS), or alignment (BEST_PATH, with `from` [B][M][L] as working memory).
template <typename T, Pass PASS>
__global__ void __launch_bounds__(MAX_WARPS* WARP, 1)
    forward_tiles(const T* match, const T* links, const int64_t* node_lengths, const int64_t* target_lengths,
                  T* log_prob, T* alpha, int32_t* from, int64_t* alignment, int M, int L) {
    EXLM_DYNAMIC_SHARED(pool);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    match += b * M * L;
    links += b * L * L;
    alpha += b * M * L;
    from += b * M * L;
    if (band.m == 0) {
        if constexpr (PASS == BEST_PATH) {
            trace(band, false, nullptr, L, alignment + b * L);
        } else {
            for (int j = threadIdx.x; j < M * L; j += blockDim.x) alpha[j] = -INFINITY;
            if (threadIdx.x == 0) log_prob[b] = -INFINITY;
        }
        return;
    }
    const TileLayout<T> layout(L);
    const Shared<T> shared(pool, layout);
    T* const alphas = shared.rows[0];   // of the row at hand
    T* const weights = shared.rows[1];  // exp(alpha - its slice's top)
    T own[WARP];
    const T shift = load_tiles<T, PASS>(links, L, band.n, layout, shared, own);
    const int slices = (band.n + WARP - 1) / WARP, tiles = slices * (slices + 1) / 2;
    const int u = warp * WARP + lane;  // the node that this thread keeps, if its warp keeps a slice
    const bool ends_here = u == band.n - 1;
    T emission = u == 0 ? match[0] : T(0), value = -INFINITY;
    double offset = 0;  // what alpha is less than log f

    for (int i = 0; i < band.m; ++i) {
        if (warp < layout.slices) {
            const T* const tops = shared.tops + (i + 1) % 2 * WARP;
            value = i == 0 && u == 0 ? emission : static_cast<T>(-INFINITY);
            if (i > 0 && warp < slices) {
                T top = -INFINITY, row_top = -INFINITY;
                for (int k = 0; k < slices; ++k) {
                    row_top = larger(row_top, tops[k]);
                    if (k == warp) top = row_top;
                }
                offset += static_cast<double>(row_top);
                const int first_tile = Tile::index(0, warp);
                if (band.crosses(i, warp)) {
                    T sum = -INFINITY;
                    if (PASS == BEST_PATH) {
                        int best = 0;
                        for (int k = 0; k <= warp; ++k) {
                            const int entry = (first_tile + k) * WARP + lane;
                            if (!(shared.parts[entry] > sum)) continue;
                            sum = shared.parts[entry];
                            best = WARP * k + static_cast<int>(shared.masks[entry]);
                        }
                        if (u < band.n) from[i * L + u] = best;
                        sum -= row_top;
                    } else {
                        sum = sum_parts(shared.parts + first_tile * WARP, tops, warp, top);
                        sum = sum == -INFINITY ? sum : (sum - row_top) + shift;
                    }
                    if (band.holds(i, u) && sum != -INFINITY) value = sum + emission;
                }
            }
            const T top = warp_max(value);
            const uint32_t alive = __ballot_sync(ALL, value != -INFINITY);
            alphas[u] = value;
            weights[u] = value == -INFINITY ? T(0) : exp_of(value - top);
            if (lane == 0) {
                shared.tops[i % 2 * WARP + warp] = top;
                shared.flags[warp] = alive;
            }
            if (PASS == SUM_OF_PATHS && u < L) alpha[i * L + u] = value;
            if (i + 1 < band.m && band.holds(i + 1, u)) emission = match[(i + 1) * L + u];
        }
        if (i + 1 == band.m) break;
        __syncthreads();

        const T* const tops = shared.tops + i % 2 * WARP;
        for_own_tiles<T, false>(tiles, layout, shared, own, [&](Tile tile, int t, auto edge) {
            if (!band.crosses(i + 1, tile.c)) return;
            const uint32_t alive = shared.flags[tile.k];
            if (PASS == BEST_PATH) {
                T best = -INFINITY;
                uint32_t predecessor = 0;
                if (alive != 0) {
#pragma unroll
                    for (int j = 0; j < WARP; ++j) {
                        const T candidate = alphas[WARP * tile.k + j] + edge(j);
                        if (candidate > best) predecessor = j;  // ties go to the earliest
                        best = candidate > best ? candidate : best;
                    }
                }
                shared.parts[t * WARP + lane] = best;
                shared.masks[t * WARP + lane] = predecessor;
                return;
            }
            T part = alive == 0 ? T(0) : product(weights + WARP * tile.k, edge);
            if (!(part >= Limits<T>::PART)) {
                const uint32_t nodes = alive & shared.masks[t * WARP + lane];
                const T* const from_slice = links + WARP * tile.k * L + WARP * tile.c + lane;
                const T scale = tops[tile.k] + shift;
                part = nodes == 0 ? T(0) : exact_part(alphas + WARP * tile.k, from_slice, L, nodes, scale);
            }
            shared.parts[t * WARP + lane] = part;
        });
        __syncthreads();
    }
    if constexpr (PASS == BEST_PATH) {
        if (ends_here) shared.scratch[0] = value;
        __syncthreads();
        trace(band, shared.scratch[0] > -INFINITY, from, L, alignment + b * L);
    } else {
        if (ends_here) log_prob[b] = static_cast<T>(offset + static_cast<double>(value));
        for (int j = band.m * L + threadIdx.x; j < M * L; j += blockDim.x) alpha[j] = -INFINITY;
    }
}

// grad_match; what the edges' gradients are made of (Rows); and, if `fused`, these gradients.
template <typename T>
__global__ void __launch_bounds__(MAX_WARPS* WARP, 1)
    backward_tiles(const T* grad_log_prob, const T* match, const T* links, const int64_t* node_lengths,
                   const int64_t* target_lengths, const T* alpha, T* grad_match, T* grad_links, void* workspace, int M,
                   int L, bool fused) {
    EXLM_DYNAMIC_SHARED(pool);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    match += b * M * L;
    links += b * L * L;
    alpha += b * M * L;
    grad_match += b * M * L;
    grad_links += b * L * L;
    const T grad = grad_log_prob[b];
    const Work work = backward_work(band, alpha, L, grad);
    const Rows<T> rows(workspace, b, M, L);
    const TileLayout<T> layout(L);
    if (work != WORK_POSTERIORS) {
        fill_grad_match(work, band, M, L, grad_match);
    } else {
        const Shared<T> shared(pool, layout);
        T* const ratios = shared.rows[0];    // of the row at hand; 0 where it is too large
        T* const logs = shared.rows[1];      // log of the ratio, there
        T* const weights = shared.rows[2];   // of the row before
        T* const tops = shared.tops;
        T own[WARP];
        const T shift = load_tiles<T, POSTERIORS>(links, L, band.n, layout, shared, own);
        const int slices = (band.n + WARP - 1) / WARP, tiles = slices * (slices + 1) / 2;
        if (threadIdx.x == 0) *rows.shift() = shift;
        for (int i = 1 + warp; i < band.m; i += layout.warps) {
            T top = -INFINITY;
            for (int v = band.first(i - 1) + lane; v <= band.last(i - 1); v += WARP) {
                top = larger(top, alpha[(i - 1) * L + v]);
            }
            top = warp_max(top);
            if (lane == 0) tops[i] = rows.tops()[i] = top;
        }
        __syncthreads();

        const int x = warp * WARP + lane;  // the node that this thread keeps, if its warp keeps a slice
        auto entry = [&](const T* of, int i) {
            return i >= 0 && band.holds(i, x) ? of[i * L + x] : static_cast<T>(-INFINITY);
        };
        T here = -INFINITY, before = -INFINITY, emission = -INFINITY;
        if (warp < slices) {
            here = entry(alpha, band.m - 1);
            before = entry(alpha, band.m - 2);
            emission = entry(match, band.m - 1);
        }
        for (int i = band.m - 1; i >= 0; --i) {
            if (warp < layout.slices) {
                T posterior = i == band.m - 1 && x == band.n - 1 ? T(1) : T(0), ratio = 0, weight = 0;
                if (i < band.m - 1 && warp < slices && band.crosses(i, warp)) {
                    for (int c = warp; c < slices; ++c) posterior += shared.parts[Tile::index(warp, c) * WARP + lane];
                }
                if (i > 0) {
                    ratio = ratio_of(posterior, here - emission - shift);
                    weight = before > -INFINITY ? exp_of(before - tops[i]) : T(0);
                    ratios[x] = ratio > 0 ? ratio : T(0);
                    logs[x] = -ratio;
                    weights[x] = weight;
                    const uint32_t too_large = __ballot_sync(ALL, ratio < 0);
                    if (lane == 0) shared.flags[warp] = too_large;
                    rows.ratios(i)[x] = ratio;
                    rows.weights(i)[x] = weight;
                }
                if (x < L) grad_match[i * L + x] = x < band.n ? grad * posterior : T(0);
                here = before;
                if (warp < slices) {
                    before = entry(alpha, i - 2);
                    emission = entry(match, i - 1);
                }
            }
            if (i == 0) break;
            __syncthreads();

            for_own_tiles<T, true>(tiles, layout, shared, own, [&](Tile tile, int t, auto edge) {
                T sum = 0;
                if (band.crosses(i, tile.c) && band.crosses(i - 1, tile.k)) {
                    const int v = WARP * tile.k + lane;
                    sum = product(ratios + WARP * tile.c, edge) * weights[v];
                    for (uint32_t left = shared.flags[tile.c]; left != 0; left &= left - 1) {
                        const int u = WARP * tile.c + __ffs(left) - 1;
                        if (v >= u || !band.holds(i - 1, v)) continue;
                        const T share = alpha[(i - 1) * L + v] - tops[i] + logs[u] +
                                        links[v * L + u] - shift;
                        sum += share == share ? exp_of(share) : T(0);
                    }
                }
                shared.parts[t * WARP + lane] = sum;
            });
            __syncthreads();
        }
        for (int j = band.m * L + threadIdx.x; j < M * L; j += blockDim.x) grad_match[j] = 0;
    }
    if constexpr (TileLayout<T>::OWN_IN_REGISTERS) {
        if (!fused) return;  // Rows can be read: the last step's barriers came after all of it
        for (int t = warp; t < 2 * layout.slices * layout.slices; t += layout.warps) {  // half tiles: fewer registers
            const int k = t / (2 * layout.slices), c = t / 2 % layout.slices, v0 = WARP * k + WARP / 2 * (t % 2);
            edge_gradients<T, WARP / 2>(work, grad, links, alpha, band, rows, L, v0, c, grad_links);
        }
    }
}

}  // namespace exlm
