// What the CUDA kernels of the DAG op share: see dag.h for the recursion and the shapes, docs/performance.md for the
// design and the reasoning behind the limits below.
//
// The tests compile these files as C++ against an emulation of the CUDA execution model, which is why a launch and the
// declaration of dynamic shared memory are macros. Everything else is plain CUDA, sm_70 and later.
#pragma once

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

#include "dag.h"

#ifndef EXLM_LAUNCH
#define EXLM_LAUNCH(kernel, grid, block, bytes, stream, ...) kernel<<<grid, block, bytes, stream>>>(__VA_ARGS__)
#define EXLM_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

namespace exlm {

constexpr int WARP = 32;
constexpr unsigned ALL = 0xffffffffu;

// PART: a tile's scaled sum below this is taken again in the log domain. What underflows in its 32 terms, each off by
// at most a few denormal steps (1.4e-45, 4.9e-324), is then less than 1e-7 (1e-16) of it.
// SUM: a node's sum over its tiles below this is taken again in the log domain; what the parts below PART could have
// added is less than 1e-7 (1e-18) of it.
// LOG_RATIO: largest log of posterior / sum that the backward pass multiplies with; the product with what underflows
// in a weight is then less than 1e-13 (1e-60), as a share of the posterior 1.
template <typename T>
struct Limits;
template <>
struct Limits<float> {
    static constexpr float PART = 1e-35f, LOG_PART = -80.59f, SUM = 1e-26f, LOG_RATIO = 73.0f;
};
template <>
struct Limits<double> {
    static constexpr double PART = 1e-290, LOG_PART = -667.74, SUM = 1e-270, LOG_RATIO = 600.0;
};

__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float log_of(float x) { return logf(x); }
__device__ inline double log_of(double x) { return log(x); }
__device__ inline float larger(float x, float y) { return fmaxf(x, y); }  // of a NaN and a number: the number
__device__ inline double larger(double x, double y) { return fmax(x, y); }

template <typename T>
__device__ T warp_max(T x) {
    for (int step = WARP / 2; step > 0; step /= 2) x = larger(x, __shfl_xor_sync(ALL, x, step));
    return x;
}

template <typename T>
__device__ T warp_sum(T x) {
    for (int step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(ALL, x, step);
    return x;
}

// Largest x of the block, for all its threads; scratch has an entry for each warp and is free again on return.
template <typename T>
__device__ T block_max(T x, T* scratch) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    x = warp_max(x);
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    x = warp_max(lane < warps ? scratch[lane] : static_cast<T>(-INFINITY));
    __syncthreads();
    return x;
}

// A sentence's part of the trellis: paths from the first to the last node can pass only nodes first(i) .. last(i) at
// target i. m = 0: no path, because of the lengths (those out of range included).
struct Band {
    int n, m;  // nodes, targets
    __device__ Band(const int64_t* node_lengths, const int64_t* target_lengths, int64_t b, int M, int L) {
        const int64_t nodes = node_lengths[b], targets = target_lengths[b];
        const bool in_range = targets >= 1 && targets <= M && nodes >= 1 && nodes <= L;
        const bool feasible = in_range && nodes >= targets && (targets > 1 || nodes == 1);
        n = feasible ? static_cast<int>(nodes) : 0;
        m = feasible ? static_cast<int>(targets) : 0;
    }
    __device__ int first(int i) const { return i; }
    __device__ int last(int i) const { return n - m + i; }
    __device__ bool holds(int i, int u) const { return u >= first(i) && u <= last(i); }
    __device__ bool crosses(int i, int slice) const {  // slice s: nodes 32 s .. 32 s + 31
        return slice * WARP <= last(i) && slice * WARP + WARP > first(i);
    }
};

// What the backward pass has to do for a sentence.
enum Work { WORK_ZEROS, WORK_NANS, WORK_POSTERIORS };

template <typename T>
__device__ Work backward_work(const Band& band, const T* alpha, int L, T grad) {
    if (band.m == 0 || grad == 0) return WORK_ZEROS;
    const T end = alpha[static_cast<int64_t>(band.m - 1) * L + band.n - 1];
    if (end != end) return WORK_NANS;
    return end == -INFINITY ? WORK_ZEROS : WORK_POSTERIORS;
}

// The backward pass's working memory of a sentence, kept for the edges' gradients. With tops[i] the largest alpha of
// row i - 1 and shift the largest link, for i = 1 .. m - 1:
//   weights[i][v] = exp(alpha(i - 1, v) - tops[i])
//   ratios[i][u]  = posterior(i, u) / sum over v of weights[i][v] * exp(links(v, u) - shift), or -log of that if the
//                   log is larger than Limits::LOG_RATIO (a negative number)
// so posterior of the edge v -> u = exp(links(v, u) - shift) * sum over i of weights[i][v] * ratios[i][u].
template <typename T>
struct Rows {
    T* base;
    int M, width;  // width of a row: L rounded up to whole slices
    __host__ __device__ static int64_t size(int M, int L) {  // elements of a sentence, a multiple of 4
        const int64_t width = (L + WARP - 1) / WARP * WARP;
        return (2 * M * width + M + 1 + 3) / 4 * 4;
    }
    __device__ Rows(void* workspace, int64_t b, int M_, int L)
        : base(static_cast<T*>(workspace) + b * size(M_, L)), M(M_), width((L + WARP - 1) / WARP * WARP) {}
    __device__ T* weights(int i) const { return base + static_cast<int64_t>(i) * width; }
    __device__ T* ratios(int i) const { return base + static_cast<int64_t>(M + i) * width; }
    __device__ T* tops() const { return ratios(M); }
    __device__ T* shift() const { return tops() + M; }
};

// posterior / exp(log_sum) in the form in which Rows keeps it.
template <typename T>
__device__ T ratio_of(T posterior, T log_sum) {
    if (!(posterior > 0)) return 0;
    if (-log_sum <= Limits<T>::LOG_RATIO) return posterior * exp_of(-log_sum);
    const T log_ratio = log_of(posterior) - log_sum;
    return log_ratio <= Limits<T>::LOG_RATIO ? exp_of(log_ratio) : -log_ratio;
}

// grad_match [M][L] of a sentence without posteriors, by the whole block.
template <typename T>
__device__ void fill_grad_match(Work work, const Band& band, int M, int L, T* grad_match) {
    const T inside = work == WORK_NANS ? static_cast<T>(NAN) : T(0);
    for (int i = threadIdx.x / WARP; i < M; i += blockDim.x / WARP) {
        for (int u = threadIdx.x % WARP; u < L; u += WARP) {
            grad_match[static_cast<int64_t>(i) * L + u] = i < band.m && u < band.n ? inside : T(0);
        }
    }
}

// Follows the predecessors [M][L] back from the last node, by the whole block.
__device__ inline void trace(const Band& band, bool found, const int32_t* from, int L, int64_t* alignment) {
    for (int u = threadIdx.x; u < L; u += blockDim.x) alignment[u] = -1;
    __syncthreads();
    if (threadIdx.x != 0 || !found) return;
    int u = band.n - 1;
    for (int i = band.m - 1; i > 0; --i) {
        alignment[u] = i;
        u = from[static_cast<int64_t>(i) * L + u];
    }
    alignment[u] = 0;
}

// Sixteen bytes at once. The address must be a multiple of 16.
template <typename T>
struct alignas(16) Pack {
    static constexpr int SIZE = 16 / sizeof(T);
    T at[SIZE];
    static __device__ Pack load(const T* from) { return *reinterpret_cast<const Pack*>(from); }
};

// Gradient of the edges from the nodes v0 .. v0 + COUNT - 1 to those of slice c, by one warp; lane: u.
template <typename T, int COUNT>
__device__ void edge_gradients(Work work, T grad, const T* links, const T* alpha, const Band& band, const Rows<T>& rows,
                               int L, int v0, int c, T* grad_links) {
    const int lane = threadIdx.x % WARP, u = WARP * c + lane;
    T sums[COUNT];
#pragma unroll
    for (int j = 0; j < COUNT; ++j) sums[j] = 0;
    bool in_log_domain = false;
    T shift = 0;
    if (work == WORK_POSTERIORS && v0 < WARP * (c + 1)) {
        shift = *rows.shift();
        // targets i at which one of these v can stand at i - 1, and one of these u at i
        const int slack = band.n - band.m;
        const int first = max(1, max(v0 - slack + 1, WARP * c - slack));
        const int last = min(band.m - 1, min(v0 + COUNT, WARP * c + WARP - 1));
#pragma unroll 2
        for (int i = first; i <= last; ++i) {
            const T ratio = rows.ratios(i)[u];
            const T factor = ratio > 0 ? ratio : T(0);
#pragma unroll
            for (int j = 0; j < COUNT; j += Pack<T>::SIZE) {
                const Pack<T> weights = Pack<T>::load(rows.weights(i) + v0 + j);
#pragma unroll
                for (int l = 0; l < Pack<T>::SIZE; ++l) sums[j + l] += weights.at[l] * factor;
            }
            if (!__any_sync(ALL, ratio < 0)) continue;
            // The entries of this column are this thread's alone: what the log domain adds waits in the output.
            for (int v = v0; v < v0 + COUNT && v < L && u < L; ++v) {
                T* const entry = grad_links + static_cast<int64_t>(v) * L + u;
                const T waiting = in_log_domain ? *entry : T(0);
                T share = 0;
                if (ratio < 0 && v < u && band.holds(i - 1, v)) {
                    const T x = alpha[static_cast<int64_t>(i - 1) * L + v] - rows.tops()[i] - ratio +
                                links[static_cast<int64_t>(v) * L + u] - shift;
                    share = x == x ? exp_of(x) : T(0);
                }
                *entry = waiting + share;
            }
            in_log_domain = true;
        }
    }
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
        const int v = v0 + j;
        if (v >= L || u >= L) continue;
        const bool edge = v < u && u < band.n;
        T value = 0;
        if (edge && work == WORK_NANS) value = static_cast<T>(NAN);
        if (edge && work == WORK_POSTERIORS) {
            const T probability = exp_of(links[static_cast<int64_t>(v) * L + u] - shift);
            T posterior = probability == probability ? sums[j] * probability : T(0);
            if (in_log_domain) posterior += grad_links[static_cast<int64_t>(v) * L + u];
            value = grad * posterior;
        }
        grad_links[static_cast<int64_t>(v) * L + u] = value;
    }
}

}  // namespace exlm
