// The DAG op for sentences of any size: one launch a target, so that all blocks can work on one sentence. Links are
// read again at every step, and all sums are taken in the log domain.
#pragma once

#include "dag_cuda_common.cuh"

namespace exlm {

constexpr int STEP_WARPS = 8;

// A log-sum-exp that takes one term after the other: sum * exp(top). NaN stays.
template <typename T>
struct RunningSum {
    T top, sum;
    static __device__ RunningSum none() { return {static_cast<T>(-INFINITY), 0}; }
    static __device__ RunningSum term(T x, int) { return {x, x == -INFINITY ? T(0) : T(1)}; }
    __device__ void merge(const RunningSum& other) {
        if (other.sum == 0) return;
        const T step = other.top - top, factor = exp_of(step > 0 ? -step : step);
        sum = step > 0 ? sum * factor + other.sum : sum + other.sum * factor;
        top = step > 0 ? other.top : top;
    }
    __device__ T value() const { return sum == 0 ? static_cast<T>(-INFINITY) : top + log_of(sum); }
    __device__ int place() const { return 0; }
};

// A maximum and its place; ties go to the earliest.
template <typename T>
struct RunningBest {
    T top;
    int at;
    static __device__ RunningBest none() { return {static_cast<T>(-INFINITY), 0}; }
    static __device__ RunningBest term(T x, int v) { return {x, v}; }
    __device__ void merge(const RunningBest& other) {
        if (other.top > top || (other.top == top && other.at < at)) *this = other;
    }
    __device__ T value() const { return top; }
    __device__ int place() const { return at; }
};

// Row i of alpha; of the best path's score and its predecessors (`from`), with RunningBest. A block for 32 nodes.
template <typename T, template <typename> class Running>
__global__ void __launch_bounds__(STEP_WARPS* WARP)
    forward_step(const T* match, const T* links, const int64_t* node_lengths, const int64_t* target_lengths, T* alpha,
                 int32_t* from, int M, int L, int i) {
    __shared__ T scratch[WARP];
    __shared__ Running<T> parts[STEP_WARPS][WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, group = blockIdx.y;
    const int64_t b = blockIdx.x, row = (b * M + i) * L;
    const Band band(node_lengths, target_lengths, b, M, L);
    const int u = group * WARP + lane;
    if (i >= band.m || i == 0 || !band.crosses(i, group)) {
        const bool start = i == 0 && u == 0 && band.m > 0;
        if (warp == 0 && u < L) alpha[row + u] = start ? match[row] : static_cast<T>(-INFINITY);
        return;
    }
    const T* const previous = alpha + row - L;
    T row_top = -INFINITY;
    for (int v = band.first(i - 1) + threadIdx.x; v <= band.last(i - 1); v += blockDim.x) {
        row_top = larger(row_top, previous[v]);
    }
    row_top = block_max(row_top, scratch);

    const bool inside = band.holds(i, u);
    const int last = min(band.last(i - 1), group * WARP + WARP - 2);
    Running<T> running = Running<T>::none();
#pragma unroll 8
    for (int v = band.first(i - 1) + warp; v <= last; v += STEP_WARPS) {
        if (!inside || v >= u || previous[v] == -INFINITY) continue;
        running.merge(Running<T>::term(previous[v] + links[(b * L + v) * L + u], v));
    }
    parts[warp][lane] = running;
    __syncthreads();
    if (warp > 0 || u >= L) return;
    for (int w = 1; w < STEP_WARPS; ++w) running.merge(parts[w][lane]);
    const T value = running.value();
    alpha[row + u] = inside && value != -INFINITY ? value - row_top + match[row + u] : static_cast<T>(-INFINITY);
    if (from != nullptr) from[row + u] = running.place();
}

// log_prob from the rows of alpha: each is less than log f by the sum of the largest entries of those before it.
template <typename T>
__global__ void __launch_bounds__(STEP_WARPS* WARP)
    finish_forward(const int64_t* node_lengths, const int64_t* target_lengths, const T* alpha, T* log_prob, int M,
                   int L) {
    __shared__ double offsets[STEP_WARPS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    alpha += b * M * L;
    double offset = 0;
    for (int i = warp; i < band.m - 1; i += STEP_WARPS) {
        T top = -INFINITY;
        for (int v = band.first(i) + lane; v <= band.last(i); v += WARP) {
            top = larger(top, alpha[static_cast<int64_t>(i) * L + v]);
        }
        offset += static_cast<double>(warp_max(top));
    }
    if (lane == 0) offsets[warp] = offset;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < STEP_WARPS; ++w) offset += offsets[w];
    const int64_t end = static_cast<int64_t>(band.m - 1) * L + band.n - 1;
    log_prob[b] = band.m == 0 ? static_cast<T>(-INFINITY) : static_cast<T>(offset + static_cast<double>(alpha[end]));
}

// alignment from the best paths' scores and predecessors.
template <typename T>
__global__ void __launch_bounds__(STEP_WARPS* WARP)
    finish_alignment(const int64_t* node_lengths, const int64_t* target_lengths, const T* scores, const int32_t* from,
                     int64_t* alignment, int M, int L) {
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    const int64_t end = b * M * L + static_cast<int64_t>(band.m - 1) * L + band.n - 1;
    trace(band, band.m > 0 && scores[end] > -INFINITY, from + b * M * L, L, alignment + b * L);
}

// What the backward steps start from: grad_match but for the posteriors, tops, shift, and the last target's ratios.
template <typename T>
__global__ void __launch_bounds__(STEP_WARPS* WARP)
    start_backward(const T* grad_log_prob, const T* match, const T* links, const int64_t* node_lengths,
                   const int64_t* target_lengths, const T* alpha, T* grad_match, void* workspace, int M, int L) {
    __shared__ T scratch[WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    alpha += b * M * L;
    links += b * L * L;
    const T grad = grad_log_prob[b];
    const Work work = backward_work(band, alpha, L, grad);
    fill_grad_match(work, band, M, L, grad_match + b * M * L);
    if (work != WORK_POSTERIORS) return;
    const Rows<T> rows(workspace, b, M, L);
    for (int i = 1 + warp; i < band.m; i += STEP_WARPS) {
        T top = -INFINITY;
        for (int v = band.first(i - 1) + lane; v <= band.last(i - 1); v += WARP) {
            top = larger(top, alpha[static_cast<int64_t>(i - 1) * L + v]);
        }
        top = warp_max(top);
        if (lane == 0) rows.tops()[i] = top;
    }
    T shift = -INFINITY;
    for (int v = warp; v < band.n; v += STEP_WARPS) {
        for (int u = v + 1 + lane; u < band.n; u += WARP) shift = larger(shift, links[static_cast<int64_t>(v) * L + u]);
    }
    shift = block_max(shift, scratch);  // with its barriers, so that grad_match is filled before its end is set
    shift = shift == -INFINITY ? T(0) : shift;
    const int64_t end = static_cast<int64_t>(band.m - 1) * L + band.n - 1;
    for (int u = threadIdx.x; u < rows.width; u += blockDim.x) {
        const bool last = u == band.n - 1;
        const T log_sum = last ? alpha[end] - match[b * M * L + end] - shift : T(0);
        rows.ratios(band.m - 1)[u] = ratio_of(last ? T(1) : T(0), log_sum);
    }
    if (threadIdx.x == 0) {
        *rows.shift() = shift;
        grad_match[b * M * L + end] = grad;
    }
}

// Posteriors of target i - 1 from those of target i; a warp for a node.
template <typename T>
__global__ void __launch_bounds__(STEP_WARPS* WARP)
    backward_step(const T* grad_log_prob, const T* match, const T* links, const int64_t* node_lengths,
                  const int64_t* target_lengths, const T* alpha, T* grad_match, void* workspace, int M, int L, int i) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int v = blockIdx.y * STEP_WARPS + warp;
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    alpha += b * M * L;
    const T grad = grad_log_prob[b];
    if (i >= band.m || backward_work(band, alpha, L, grad) != WORK_POSTERIORS) return;
    const Rows<T> rows(workspace, b, M, L);
    if (v >= rows.width) return;
    const T* const ratios = rows.ratios(i);
    const int64_t entry = static_cast<int64_t>(i - 1) * L + v;
    const T value = band.holds(i - 1, v) ? alpha[entry] - rows.tops()[i] : static_cast<T>(-INFINITY);
    T posterior = 0;
    if (value > -INFINITY) {
        for (int u = max(v + 1, band.first(i)) + lane; u <= band.last(i); u += WARP) {
            const T ratio = ratios[u];
            if (ratio == 0) continue;
            const T x = value + links[(b * L + v) * L + u] - *rows.shift();
            const T share = ratio > 0 ? exp_of(x) * ratio : exp_of(x - ratio);
            posterior += share == share ? share : T(0);
        }
        posterior = warp_sum(posterior);
    }
    if (lane > 0) return;
    rows.weights(i)[v] = value > -INFINITY ? exp_of(value) : T(0);
    T log_sum = 0;
    if (band.holds(i - 1, v)) {
        grad_match[b * M * L + entry] = grad * posterior;
        log_sum = alpha[entry] - match[b * M * L + entry] - *rows.shift();
    }
    rows.ratios(i - 1)[v] = ratio_of(posterior, log_sum);
}

// Nodes whose edges a warp of finish_backward works on: as many as the registers hold.
template <typename T>
constexpr int EDGE_ROWS = sizeof(T) == 4 ? WARP : WARP / 2;

// grad_links from Rows; a warp for the edges from EDGE_ROWS nodes to a slice.
template <typename T>
__global__ void __launch_bounds__(STEP_WARPS* WARP)
    finish_backward(const T* grad_log_prob, const T* links, const int64_t* node_lengths, const int64_t* target_lengths,
                    const T* alpha, T* grad_links, void* workspace, int M, int L) {
    const int slices = (L + WARP - 1) / WARP;
    const int piece = blockIdx.y * STEP_WARPS + threadIdx.x / WARP, v0 = piece / slices * EDGE_ROWS<T>;
    if (v0 >= L) return;
    const int64_t b = blockIdx.x;
    const Band band(node_lengths, target_lengths, b, M, L);
    alpha += b * M * L;
    const T grad = grad_log_prob[b];
    const Work work = backward_work(band, alpha, L, grad);
    const Rows<T> rows(workspace, b, M, L);
    edge_gradients<T, EDGE_ROWS<T>>(work, grad, links + b * L * L, alpha, band, rows, L, v0, piece % slices,
                                    grad_links + b * L * L);
}

}  // namespace exlm
