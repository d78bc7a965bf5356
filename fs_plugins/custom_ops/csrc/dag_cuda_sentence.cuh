// The DAG op for sentences whose edges fit on one multiprocessor: one block a sentence, links read from global memory
// once. dag_cuda_tiles.cuh says how a block shares out the work.
#pragma once

#include "dag_cuda_tiles.cuh"

namespace exlm {

// The sum of a tile for node u by add_edges, where its factors don't do: links are read from global memory once more.
// With a mantissa like that of the other sums.
__device__ Scaled recompute_exact(const float* links, int L, int n, int u, int v0, const Scaled* nodes) {
    float edges[HALVES][GROUP];
#pragma unroll
    for (int j = 0; j < BUNDLE; ++j) {
        edges[j / GROUP][j % GROUP] = v0 + j < u && u < n ? links[(v0 + j) * L + u] : -INFINITY;
    }
    Scaled sum = add_edges<true>(Scaled::zero(), edges[0], Group(nodes + v0));
    for (int h = 1; h < HALVES; ++h) sum = add_edges<false>(sum, edges[h], Group(nodes + v0 + h * GROUP));
    return {sum.exponent - SHIFT, sum.mantissa * power_of_two(SHIFT)};
}

// log_prob and alpha.
template <int OWN>
__global__ void __launch_bounds__(MAX_WARPS<OWN>* WARP, 1)
    forward_tiles(const float* match, const float* links, const int64_t* node_lengths, const int64_t* target_lengths,
                  float* log_prob, Scaled* alpha, int M, int L) {
    EXLM_DYNAMIC_SHARED(pool);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    match += b * M * L;
    links += b * L * L;
    alpha += b * M * L;
    for (int j = band.m * L + threadIdx.x; j < M * L; j += blockDim.x) alpha[j] = Scaled::zero();
    if (band.m == 0) {
        if (threadIdx.x == 0) log_prob[b] = -INFINITY;
        return;
    }
    using Layout = TileLayout<OWN, SUM_OF_PATHS>;
    const Layout layout(L);
    const SharedMemory<OWN, SUM_OF_PATHS> shared(pool, layout);
    const WarpTiles<OWN, SUM_OF_PATHS> owned(band, layout, shared.tiles);
    float* const slots = shared.slots + warp * layout.slots * layout.SLOT_SIZE;
    Scaled* const parts = shared.parts + lane;
    const int u = warp * WARP + lane;  // the node that this thread keeps, if its warp keeps a slice
    const bool keeps = warp < layout.slices;
    auto match_at = [&](int i) {
        return i < band.m && keeps && band.holds(i, u) ? match[i * L + u] : -INFINITY;
    };
    const float start = u == 0 ? match[0] : -INFINITY;
    float next = match_at(1);
    float own[OWN][Layout::NUMBERS];
    load_tiles(links, L, band.n, owned, slots, own);
    for (int p = warp; p < layout.slices * Layout::PARTS; p += layout.warps) parts[p * WARP] = Scaled::zero();

    Scaled value = scaled_exp(start);
    for (int i = 0;; ++i) {
        if (keeps) {
            shared.nodes[u] = value;
            if constexpr (OWN > 1) Weights::store(value, shared.weights + u / BUNDLE, u % BUNDLE);
            if (u < L) alpha[i * L + u] = value;
        }
        if (i + 1 == band.m) break;
        __syncthreads();

        Scaled sum = Scaled::zero();
        uint32_t again = 0;  // bit t: tile t needs add_edges, for this lane
        for_own_tiles(owned, i, slots, own, [&](int t, const Tile& tile, const auto& edges, bool goes_on, bool ends) {
            if constexpr (OWN == 1) {
                sum = add_edges<true>(sum, edges, Group(shared.nodes + GROUP * tile.group));
            } else {
                const Weights* const from = shared.weights + tile.group;
                const Weights weights = Weights::load(from);
                const Scaled before = sum;
                float halves[HALVES];
                sum = sum_of_factors(edges, weights, halves);
                const bool usual = sum.mantissa >= SMALL;
                if (!__all_sync(ALL, usual)) {
                    asm volatile("");  // a branch: nearly all tiles go past it
                    const bool right = usual || renormalize(sum, halves, edges, weights, from->exponents);
                    if (!right && band.holds(i + 1, WARP * tile.slice + lane)) again |= 1u << t;
                }
                if (goes_on) {
                    const Scaled both[] = {before, sum};
                    sum = add_up(both);
                }
            }
            if (ends) parts[tile.part] = sum;
        });
        for (; OWN > 1 && again != 0; again &= again - 1) {
            const Tile tile = owned.tile(31 - __clz(again & -again));
            const int node = WARP * tile.slice + lane;
            const Scaled both[] = {parts[tile.part],
                                      recompute_exact(links, L, band.n, node, BUNDLE * tile.group, shared.nodes)};
            parts[tile.part] = add_up(both);
        }
        Scaled emission;
        if (keeps) emission = scaled_exp(next), next = match_at(i + 2);
        __syncthreads();
        value = Scaled::zero();
        if (keeps && band.crosses(i + 1, WARP * warp, WARP)) {
            Scaled sums[Layout::PARTS];
#pragma unroll
            for (int p = 0; p < Layout::PARTS; ++p) sums[p] = parts[(warp * Layout::PARTS + p) * WARP];
            sum = add_up(sums);
            if (!sum.is_zero() && !emission.is_zero()) value = product(sum, emission);
        }
    }
    if (u == band.n - 1) log_prob[b] = value.log();
}

// grad_match, and Ratios for the edges' gradients.
template <int OWN>
__global__ void __launch_bounds__(MAX_WARPS<OWN>* WARP, 1)
    backward_tiles(const float* grad_log_prob, const float* match, const float* links, const int64_t* node_lengths,
                   const int64_t* target_lengths, const Scaled* alpha, float* grad_match, void* workspace, int M,
                   int L) {
    EXLM_DYNAMIC_SHARED(pool);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    match += b * M * L;
    alpha += b * M * L;
    grad_match += b * M * L;
    const float grad = grad_log_prob[b];
    using Layout = TileLayout<OWN, POSTERIORS>;
    const Layout layout(L);
    const SharedMemory<OWN, POSTERIORS> shared(pool, layout);
    const WarpTiles<OWN, POSTERIORS> owned(band, layout, shared.tiles);
    float* const slots = shared.slots + warp * layout.slots * layout.SLOT_SIZE;
    float* const parts = shared.posterior_parts + lane;
    const int x = warp * WARP + lane;  // the node that this thread keeps, if its warp keeps a slice
    const bool keeps = warp < layout.slices;
    const int back = owned.slices - 1 - warp;  // the slice's number from the end, by which WarpTiles goes
    auto node_at = [&](int i) { return i >= 0 && keeps && band.holds(i, x) ? alpha[i * L + x] : Scaled::zero(); };
    auto match_at = [&](int i) { return i >= 0 && keeps && band.holds(i, x) ? match[i * L + x] : 0.0f; };
    Scaled here = node_at(band.m - 1), before = node_at(band.m - 2);
    float emission = match_at(band.m - 1);
    const Work work = backward_work(band, alpha, L, grad);
    float own[OWN][GROUP];
    load_tiles(links + b * L * L, L, band.n, owned, slots, own);
    for (int p = warp; p < layout.slices * Layout::PARTS; p += layout.warps) parts[p * WARP] = 0;
    if (work != WORK_POSTERIORS) return fill_grad_match(work, band, M, L, grad_match);
    for (int j = band.m * L + threadIdx.x; j < M * L; j += blockDim.x) grad_match[j] = 0;

    const Ratios ratios(M, L);
    Scaled* const all_ratios = ratios.of(workspace, b);
    Scaled inverse = inverse_sum(here, scaled_exp(emission));
    emission = match_at(band.m - 2);
    float posterior = x == band.n - 1 ? 1.0f : 0.0f;
    for (int i = band.m - 1;; --i) {
        if (keeps && x < L) grad_match[i * L + x] = grad * posterior;
        if (i == 0) return;
        if (keeps) {
            const Scaled ratio = {inverse.exponent, posterior * inverse.mantissa};
            shared.ratios[x] = ratio;
            shared.nodes[x] = before;
            all_ratios[i * ratios.width + x] = ratio;
        }
        here = before;
        before = node_at(i - 2);
        __syncthreads();

        float sum = 0;
        for_own_tiles(owned, i, slots, own, [&](int, const Tile& tile, const float(&edges)[GROUP], bool, bool ends) {
            const int v0 = WARP * (owned.slices - 1 - tile.slice),
                      u0 = GROUP * (Layout::GROUPS * owned.slices - 1 - tile.group);
            const Scaled from = shared.nodes[v0 + lane];
            const Group to(shared.ratios + u0);
            float shares[GROUP];
            shares_of(edges, from.exponent, to, shares);
            float even = shares[0] * to.at[0].mantissa, odd = shares[1] * to.at[1].mantissa;
#pragma unroll
            for (int j = 2; j < GROUP; j += 2) {
                even = fmaf(shares[j], to.at[j].mantissa, even);
                odd = fmaf(shares[j + 1], to.at[j + 1].mantissa, odd);
            }
            sum += from.mantissa * (even + odd);
            if (!ends) return;
            parts[tile.part] = sum;
            sum = 0;
        });
        if (keeps) inverse = inverse_sum(here, scaled_exp(emission)), emission = match_at(i - 2);
        __syncthreads();
        if (back < 0) continue;
        float sums[Layout::PARTS];
#pragma unroll
        for (int p = 0; p < Layout::PARTS; ++p) sums[p] = parts[(back * Layout::PARTS + p) * WARP];
        // not what was sent when the slice was in the band
        posterior = here.is_zero() ? 0.0f : total<Layout::PARTS>(sums);
    }
}

}  // namespace exlm
