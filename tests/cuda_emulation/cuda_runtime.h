// Stands in for CUDA's header of this name, so that a C++ compiler can build the kernels for a machine without a GPU:
// blocks run one after the other, the threads of a block are fibers that take turns at barriers and warp operations (see
// emulation.cpp). Only what the kernels use is here.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <cstring>
#include <functional>

using std::max;
using std::min;

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim;  // of the fiber that runs

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after the other

#define EXLM_LAUNCH(kernel, grid, stream, ...) \
    emulation::launch(grid, dim3(WARPS * WARP), [=] { kernel(__VA_ARGS__); })

namespace emulation {

enum Operation { SHUFFLE = 1 };

void launch(dim3 grid, dim3 block, const std::function<void()>& kernel);
uint64_t exchange(Operation operation, unsigned mask, uint64_t value, int source);  // the value of lane `source`
int lane();

template <typename T>
T shuffle(unsigned mask, T value, int source) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = exchange(SHUFFLE, mask, bits, source);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace emulation

void __syncthreads();
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
    return emulation::shuffle(mask, value, emulation::lane() ^ bits);
}

typedef struct CUstream_st* cudaStream_t;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
cudaError_t cudaGetLastError();
inline const char* cudaGetErrorString(cudaError_t) { return "an error of the emulation"; }
