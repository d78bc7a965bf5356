// What the CUDA kernels of the DAG op share: see dag.h for the recursion and the shapes, README.md for the
// design and the reasoning behind the limits below.
//
// The tests compile these files as C++ against an emulation of the CUDA execution model, which is why a launch and the
// declaration of dynamic shared memory are macros. Everything else is plain CUDA, sm_70 and later.
#pragma once

#include "dag.h"
#include "dag_cuda_numbers.cuh"

#ifndef EXLM_LAUNCH
#define EXLM_LAUNCH(kernel, grid, block, bytes, stream, ...) kernel<<<grid, block, bytes, stream>>>(__VA_ARGS__)
#define EXLM_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

namespace exlm {

constexpr int WARP = 32;
constexpr int STEP_WARPS = 8;  // of a block, where a block is not a sentence
constexpr unsigned ALL = 0xffffffffu;

__device__ float warp_sum(float x) {
    for (int step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(ALL, x, step);
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
    __device__ bool crosses(int i, int from, int count) const {  // the nodes from .. from + count - 1
        return from <= last(i) && from + count > first(i);
    }
};

// What the backward pass has to do for a sentence.
enum Work { WORK_ZEROS, WORK_NANS, WORK_POSTERIORS };

__device__ Work backward_work(const Band& band, const Scaled* alpha, int L, float grad) {
    if (band.m == 0 || grad == 0) return WORK_ZEROS;
    const Scaled end = alpha[static_cast<int64_t>(band.m - 1) * L + band.n - 1];
    if (end.is_nan()) return WORK_NANS;
    return end.is_zero() ? WORK_ZEROS : WORK_POSTERIORS;
}

// The backward pass's working memory, kept for the edges' gradients: at [b][i][u] the posterior of node u at target i,
// divided by the sum over its predecessors, f(i, u) / emission. Rows are of whole warps. In numbers, not bytes.
struct Ratios {
    int M, width;
    __host__ __device__ Ratios(int M_, int L) : M(M_), width((L + WARP - 1) / WARP * WARP) {}
    __host__ __device__ int64_t size() const { return static_cast<int64_t>(M) * width; }
    __device__ Scaled* of(void* workspace, int64_t b) const { return static_cast<Scaled*>(workspace) + b * size(); }
};

// grad_match [M][L] of a sentence without posteriors, by the whole block.
__device__ void fill_grad_match(Work work, const Band& band, int M, int L, float* grad_match) {
    const float inside = work == WORK_NANS ? NAN : 0.0f;
    for (int i = threadIdx.x / WARP; i < M; i += blockDim.x / WARP) {
        for (int u = threadIdx.x % WARP; u < L; u += WARP) {
            grad_match[static_cast<int64_t>(i) * L + u] = i < band.m && u < band.n ? inside : 0.0f;
        }
    }
}

}  // namespace exlm
