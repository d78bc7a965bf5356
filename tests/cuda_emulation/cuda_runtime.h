// Stands in for CUDA's header of this name, so that a C++ compiler can build the kernels for a machine without a GPU:
// blocks run one after the other, the threads of a block are fibers that take turns at barriers and shuffles (see
// emulation.cpp). Only what the kernels use is here.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <functional>

using std::max;
using std::min;

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
extern dim3 threadIdx, blockIdx, blockDim;  // of the fiber that runs

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after the other

void emulate(dim3 grid, unsigned threads, const std::function<void()>& kernel);
#define EXLM_LAUNCH(kernel, grid, stream, ...) \
    ((void)stream, emulate(grid, WARPS * WARP, [=] { kernel(__VA_ARGS__); }))

void __syncthreads();
float __shfl_xor_sync(unsigned mask, float value, int bits);

typedef struct CUstream_st* cudaStream_t;
enum cudaError_t { cudaSuccess = 0 };
inline cudaError_t cudaGetLastError() { return cudaSuccess; }  // an emulated error stops the program
inline const char* cudaGetErrorString(cudaError_t) { return "an error of the emulation"; }
