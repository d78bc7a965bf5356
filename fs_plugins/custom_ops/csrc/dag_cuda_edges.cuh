// The gradients of the edges, from what the backward pass has left: posteriors that each node divides among its
// predecessors. For sentences of any size.
#pragma once

#include "dag_cuda_common.cuh"

namespace exlm {

// A warp for the edges from GROUP nodes to a slice; lane: u.
__global__ void __launch_bounds__(STEP_WARPS* WARP)
    edge_gradients(const float* grad_log_prob, const float* links, const int64_t* node_lengths,
                   const int64_t* target_lengths, const Scaled* alpha, float* grad_links, void* workspace, int M,
                   int L) {
    constexpr int ROWS = WARP / GROUP;  // of alpha, read at a time
    struct alignas(16) Rows {
        Scaled at[WARP];
    };
    __shared__ Rows staged[STEP_WARPS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, c = blockIdx.y, u = WARP * c + lane;
    const int v0 = (blockIdx.z * STEP_WARPS + warp) * GROUP;
    if (v0 >= L) return;
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    links += b * L * L;
    alpha += b * M * L;
    grad_links += b * L * L;
    const float grad = grad_log_prob[b];
    const Work work = backward_work(band, alpha, L, grad);
    const Ratios ratios(M, L);
    const Scaled* const column = ratios.of(workspace, b) + u;

    float edges[GROUP], sums[GROUP];
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
        const int v = v0 + j;
        const bool edge = work == WORK_POSTERIORS && v < u && u < band.n;
        const float link = edge ? links[static_cast<int64_t>(v) * L + u] : -INFINITY;
        edges[j] = link == link ? link : -INFINITY;  // a NaN here is on no path
        sums[j] = 0;
    }
    if (work == WORK_POSTERIORS && v0 < WARP * (c + 1)) {
        // targets i at which one of these v can stand at i - 1, and one of these u at i
        const int slack = band.n - band.m;
        const int first = max(1, max(v0 - slack + 1, WARP * c - slack));
        const int last = min(band.m - 1, min(v0 + GROUP, WARP * c + WARP - 1));
        for (int i0 = first; i0 <= last; i0 += ROWS) {
            const int row = i0 + lane / GROUP - 1, v = v0 + lane % GROUP;
            const bool alive = row < last && band.holds(row, v);
            const Scaled node = alive ? alpha[static_cast<int64_t>(row) * L + v] : Scaled::zero();
            Scaled to[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                to[r] = i0 + r <= last ? column[static_cast<int64_t>(i0 + r) * ratios.width] : inverse_of_zero();
            }
            staged[warp].at[lane] = node;
            __syncwarp();
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const Group from(staged[warp].at + GROUP * r);
                float shares[GROUP];
                shares_of(edges, from, to[r].exponent, shares);
#pragma unroll
                for (int j = 0; j < GROUP; ++j) sums[j] += from.at[j].mantissa * (to[r].mantissa * shares[j]);
            }
            __syncwarp();
        }
    }
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
        const int v = v0 + j;
        if (v >= L || u >= L) continue;
        float value = work == WORK_POSTERIORS ? grad * sums[j] : 0.0f;
        if (work == WORK_NANS && v < u && u < band.n) value = NAN;
        grad_links[static_cast<int64_t>(v) * L + u] = value;
    }
}

}  // namespace exlm
