// The DAG op for sentences whose edges fit on one multiprocessor: one block a sentence, links read from global memory
// once. dag_cuda_tiles.cuh says how a block shares out the work.
#pragma once

#include "dag_cuda_tiles.cuh"

namespace exlm {

// The sum of a tile for node u by add_edges, where its factors don't do: links are read from global memory once more.
// With a mantissa like that of the other sums.
template <typename T>
__device__ Scaled<T> sum_again(const T* links, int L, int n, int u, int v0, const Scaled<T>* nodes) {
    T edges[HALVES<T>][GROUP];
#pragma unroll
    for (int j = 0; j < BUNDLE<T>; ++j) {
        edges[j / GROUP][j % GROUP] = v0 + j < u && u < n ? links[(v0 + j) * L + u] : static_cast<T>(-INFINITY);
    }
    Scaled<T> sum = add_edges<true>(Scaled<T>::zero(), edges[0], Group<T>(nodes + v0));
    for (int h = 1; h < HALVES<T>; ++h) sum = add_edges<false>(sum, edges[h], Group<T>(nodes + v0 + h * GROUP));
    return {sum.exponent - Constant<T>::SHIFT, sum.mantissa * power_of_two(Constant<T>::SHIFT)};
}

// log_prob and alpha.
template <typename T, int OWN>
__global__ void __launch_bounds__(MAX_WARPS<T, OWN>* WARP, 1)
    forward_tiles(const T* match, const T* links, const int64_t* node_lengths, const int64_t* target_lengths,
                  T* log_prob, Scaled<T>* alpha, int M, int L) {
    EXLM_DYNAMIC_SHARED(pool);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    match += b * M * L;
    links += b * L * L;
    alpha += b * M * L;
    for (int j = band.m * L + threadIdx.x; j < M * L; j += blockDim.x) alpha[j] = Scaled<T>::zero();
    if (band.m == 0) {
        if (threadIdx.x == 0) log_prob[b] = -INFINITY;
        return;
    }
    using Layout = TileLayout<T, OWN, SUM_OF_PATHS>;
    const Layout layout(L);
    const SharedMemory<T, OWN, SUM_OF_PATHS> shared(pool, layout);
    const WarpTiles<T, OWN, SUM_OF_PATHS> owned(band, layout, shared.tiles);
    T* const slots = shared.slots + warp * layout.slots * layout.SLOT_SIZE;
    Scaled<T>* const parts = shared.parts + lane;
    const int u = warp * WARP + lane;  // the node that this thread keeps, if its warp keeps a slice
    const bool keeps = warp < layout.slices;
    auto match_at = [&](int i) {
        return i < band.m && keeps && band.holds(i, u) ? match[i * L + u] : static_cast<T>(-INFINITY);
    };
    const T start = u == 0 ? match[0] : static_cast<T>(-INFINITY);
    T next = match_at(1);
    T own[OWN][Layout::NUMBERS];
    load_tiles(links, L, band.n, owned, slots, own);
    for (int p = warp; p < layout.slices * Layout::PARTS; p += layout.warps) parts[p * WARP] = Scaled<T>::zero();

    Scaled<T> value = scaled_exp(start);
    for (int i = 0;; ++i) {
        if (keeps) {
            shared.nodes[u] = value;
            if constexpr (OWN > 1) Weights<T>::store(value, shared.weights + u / BUNDLE<T>, u % BUNDLE<T>);
            if (u < L) alpha[i * L + u] = value;
        }
        if (i + 1 == band.m) break;
        __syncthreads();

        Scaled<T> sum = Scaled<T>::zero();
        uint32_t again = 0;  // bit t: tile t needs add_edges, for this lane
        for_own_tiles(owned, i, slots, own, [&](int t, const Tile& tile, const auto& edges, bool goes_on, bool ends) {
            if constexpr (OWN == 1) {
                sum = add_edges<true>(sum, edges, Group<T>(shared.nodes + GROUP * tile.group));
            } else {
                const Weights<T>* const from = shared.weights + tile.group;
                const Weights<T> weights = Weights<T>::load(from);
                const Scaled<T> before = sum;
                T halves[HALVES<T>];
                sum = sum_of_factors(edges, weights, halves);
                const bool usual = sum.mantissa >= Constant<T>::SMALL;
                if (!__all_sync(ALL, usual)) {
                    asm volatile("");  // a branch: nearly all tiles go past it
                    const bool right = usual || to_usual(sum, halves, edges, weights, from->exponents);
                    if (!right && band.holds(i + 1, WARP * tile.slice + lane)) again |= 1u << t;
                }
                if (goes_on) {
                    const Scaled<T> both[] = {before, sum};
                    sum = add_up(both);
                }
            }
            if (ends) parts[tile.part] = sum;
        });
        for (; OWN > 1 && again != 0; again &= again - 1) {
            const Tile tile = owned.tile(31 - __clz(again & -again));
            const int node = WARP * tile.slice + lane;
            const Scaled<T> both[] = {parts[tile.part],
                                      sum_again(links, L, band.n, node, BUNDLE<T> * tile.group, shared.nodes)};
            parts[tile.part] = add_up(both);
        }
        Scaled<T> emission;
        if (keeps) emission = scaled_exp(next), next = match_at(i + 2);
        __syncthreads();
        value = Scaled<T>::zero();
        if (keeps && band.crosses(i + 1, WARP * warp, WARP)) {
            Scaled<T> sums[Layout::PARTS];
#pragma unroll
            for (int p = 0; p < Layout::PARTS; ++p) sums[p] = parts[(warp * Layout::PARTS + p) * WARP];
            sum = add_up(sums);
            if (!sum.is_zero() && !emission.is_zero()) value = product(sum, emission);
        }
    }
    if (u == band.n - 1) log_prob[b] = value.log();
}

// grad_match, and Ratios for the edges' gradients.
template <typename T, int OWN>
__global__ void __launch_bounds__(MAX_WARPS<T, OWN>* WARP, 1)
    backward_tiles(const T* grad_log_prob, const T* match, const T* links, const int64_t* node_lengths,
                   const int64_t* target_lengths, const Scaled<T>* alpha, T* grad_match, void* workspace, int M,
                   int L) {
    EXLM_DYNAMIC_SHARED(pool);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    match += b * M * L;
    alpha += b * M * L;
    grad_match += b * M * L;
    const T grad = grad_log_prob[b];
    using Layout = TileLayout<T, OWN, POSTERIORS>;
    const Layout layout(L);
    const SharedMemory<T, OWN, POSTERIORS> shared(pool, layout);
    const WarpTiles<T, OWN, POSTERIORS> owned(band, layout, shared.tiles);
    T* const slots = shared.slots + warp * layout.slots * layout.SLOT_SIZE;
    T* const parts = shared.posterior_parts + lane;
    const int x = warp * WARP + lane;  // the node that this thread keeps, if its warp keeps a slice
    const bool keeps = warp < layout.slices;
    const int back = owned.slices - 1 - warp;  // the slice's number from the end, by which WarpTiles goes
    auto node_at = [&](int i) { return i >= 0 && keeps && band.holds(i, x) ? alpha[i * L + x] : Scaled<T>::zero(); };
    auto match_at = [&](int i) { return i >= 0 && keeps && band.holds(i, x) ? match[i * L + x] : T(0); };
    Scaled<T> here = node_at(band.m - 1), before = node_at(band.m - 2);
    T emission = match_at(band.m - 1);
    const Work work = backward_work(band, alpha, L, grad);
    T own[OWN][GROUP];
    load_tiles(links + b * L * L, L, band.n, owned, slots, own);
    for (int p = warp; p < layout.slices * Layout::PARTS; p += layout.warps) parts[p * WARP] = 0;
    if (work != WORK_POSTERIORS) return fill_grad_match(work, band, M, L, grad_match);
    for (int j = band.m * L + threadIdx.x; j < M * L; j += blockDim.x) grad_match[j] = 0;

    const Ratios ratios(M, L);
    Scaled<T>* const all_ratios = ratios.of<T>(workspace, b);
    Scaled<T> inverse = inverse_sum(here, scaled_exp(emission));
    emission = match_at(band.m - 2);
    T posterior = x == band.n - 1 ? T(1) : T(0);
    for (int i = band.m - 1;; --i) {
        if (keeps && x < L) grad_match[i * L + x] = grad * posterior;
        if (i == 0) return;
        if (keeps) {
            const Scaled<T> ratio = {inverse.exponent, posterior * inverse.mantissa};
            shared.ratios[x] = ratio;
            shared.nodes[x] = before;
            all_ratios[i * ratios.width + x] = ratio;
        }
        here = before;
        before = node_at(i - 2);
        __syncthreads();

        T sum = 0;
        for_own_tiles(owned, i, slots, own, [&](int, const Tile& tile, const T(&edges)[GROUP], bool, bool ends) {
            const int v0 = WARP * (owned.slices - 1 - tile.slice),
                      u0 = GROUP * (Layout::GROUPS * owned.slices - 1 - tile.group);
            const Scaled<T> from = shared.nodes[v0 + lane];
            const Group<T> to(shared.ratios + u0);
            T shares[GROUP];
            shares_of(edges, from.exponent, to, shares);
            T even = shares[0] * to.at[0].mantissa, odd = shares[1] * to.at[1].mantissa;
#pragma unroll
            for (int j = 2; j < GROUP; j += 2) {
                even = fused(shares[j], to.at[j].mantissa, even);
                odd = fused(shares[j + 1], to.at[j + 1].mantissa, odd);
            }
            sum += from.mantissa * (even + odd);
            if (!ends) return;
            parts[tile.part] = sum;
            sum = 0;
        });
        if (keeps) inverse = inverse_sum(here, scaled_exp(emission)), emission = match_at(i - 2);
        __syncthreads();
        if (back < 0) continue;
        T sums[Layout::PARTS];
#pragma unroll
        for (int p = 0; p < Layout::PARTS; ++p) sums[p] = parts[(back * Layout::PARTS + p) * WARP];
        // not what was sent when the slice was in the band
        posterior = here.is_zero() ? T(0) : total<Layout::PARTS>(sums);
    }
}

}  // namespace exlm
