// The DAG op for sentences of any size: one launch a target, so that all blocks can work on one sentence. Links are
// read again at every step.
#pragma once

#include "dag_cuda_common.cuh"

namespace exlm {

// Row i of alpha. A block for 32 nodes.
__global__ void __launch_bounds__(STEP_WARPS* WARP)
    forward_step(const float* match, const float* links, const int64_t* node_lengths, const int64_t* target_lengths,
                 Scaled* alpha, int M, int L, int i) {
    __shared__ Scaled parts[STEP_WARPS][WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, slice = blockIdx.y, u = slice * WARP + lane;
    const int64_t b = blockIdx.x, row = (b * M + i) * L;
    const Band band(node_lengths, target_lengths, b, M, L);
    if (i >= band.m || i == 0 || !band.crosses(i, slice * WARP, WARP)) {
        const bool start = i == 0 && u == 0 && band.m > 0;
        if (warp == 0 && u < L) alpha[row + u] = start ? scaled_exp(match[row]) : Scaled::zero();
        return;
    }
    const Scaled* const previous = alpha + row - L;
    Scaled sum = Scaled::zero();
    for (int v0 = GROUP * warp; v0 < WARP * (slice + 1); v0 += GROUP * STEP_WARPS) {
        if (!band.crosses(i - 1, v0, GROUP)) continue;
        float edges[GROUP];
        Group nodes;
#pragma unroll
        for (int j = 0; j < GROUP; ++j) {
            const int v = v0 + j;
            edges[j] = v < u && u < band.n ? links[(b * L + v) * L + u] : -INFINITY;
            nodes.at[j] = v < band.n ? previous[v] : Scaled::zero();
        }
        sum = add_edges<false>(sum, edges, nodes);
    }
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || u >= L) return;
    Scaled sums[STEP_WARPS];
    for (int w = 0; w < STEP_WARPS; ++w) sums[w] = parts[w][lane];
    sum = add_up(sums);
    const Scaled emission = band.holds(i, u) ? scaled_exp(match[row + u]) : Scaled::zero();
    alpha[row + u] = sum.is_zero() || emission.is_zero() ? Scaled::zero() : product(sum, emission);
}

__global__ void __launch_bounds__(STEP_WARPS* WARP)
    finish_forward(const int64_t* node_lengths, const int64_t* target_lengths, const Scaled* alpha, float* log_prob,
                   int B, int M, int L) {
    const int64_t b = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (b >= B) return;
    const Band band(node_lengths, target_lengths, b, M, L);
    const int64_t end = (b * M + band.m - 1) * L + band.n - 1;
    log_prob[b] = band.m == 0 ? -INFINITY : alpha[end].log();
}

// What the backward steps start from: grad_match but for the posteriors, and the last target's row of Ratios.
__global__ void __launch_bounds__(STEP_WARPS* WARP)
    start_backward(const float* grad_log_prob, const float* match, const int64_t* node_lengths,
                   const int64_t* target_lengths, const Scaled* alpha, float* grad_match, void* workspace, int M,
                   int L) {
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    const float grad = grad_log_prob[b];
    const Work work = backward_work(band, alpha + b * M * L, L, grad);
    fill_grad_match(work, band, M, L, grad_match + b * M * L);
    if (work != WORK_POSTERIORS) return;
    const Ratios ratios(M, L);
    Scaled* const row = ratios.of(workspace, b) + static_cast<int64_t>(band.m - 1) * ratios.width;
    const int64_t end = (b * M + band.m - 1) * L + band.n - 1;
    for (int u = threadIdx.x; u < ratios.width; u += blockDim.x) {
        row[u] = u == band.n - 1 ? inverse_sum(alpha[end], scaled_exp(match[end])) : inverse_of_zero();
    }
    __syncthreads();  // grad_match is filled
    if (threadIdx.x == 0) grad_match[end] = grad;
}

// Posteriors of target i - 1 from those of target i; a warp for a node.
__global__ void __launch_bounds__(STEP_WARPS* WARP)
    backward_step(const float* grad_log_prob, const float* match, const float* links, const int64_t* node_lengths,
                  const int64_t* target_lengths, const Scaled* alpha, float* grad_match, void* workspace, int M, int L,
                  int i) {
    const int lane = threadIdx.x % WARP, v = blockIdx.y * STEP_WARPS + threadIdx.x / WARP;
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    alpha += b * M * L;
    const float grad = grad_log_prob[b];
    if (i >= band.m || backward_work(band, alpha, L, grad) != WORK_POSTERIORS) return;
    const Ratios ratios(M, L);
    if (v >= ratios.width) return;
    Scaled* const row = ratios.of(workspace, b) + static_cast<int64_t>(i) * ratios.width;
    Scaled* const here = row - ratios.width + v;
    const int64_t entry = static_cast<int64_t>(i - 1) * L + v;
    const Scaled node = band.holds(i - 1, v) ? alpha[entry] : Scaled::zero();
    if (node.is_zero()) {
        if (lane == 0) *here = inverse_of_zero();
        return;
    }
    float posterior = 0;
    for (int u = max(v + 1, band.first(i)) + lane; u <= band.last(i); u += WARP) {
        const float link = links[(b * L + v) * L + u];
        if (link == link) posterior += row[u].mantissa * share_of(link, node.exponent - row[u].exponent);
    }
    posterior = node.mantissa * warp_sum(posterior);
    if (lane > 0) return;
    const Scaled inverse = inverse_sum(node, scaled_exp(match[b * M * L + entry]));
    grad_match[b * M * L + entry] = grad * posterior;
    *here = {inverse.exponent, posterior * inverse.mantissa};
}

}  // namespace exlm
