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

#define EXLM_LAUNCH(kernel, grid, block, bytes, stream, ...) \
    emulation::launch(grid, block, bytes, [=] { kernel(__VA_ARGS__); })
#define EXLM_DYNAMIC_SHARED(name) unsigned char* const name = emulation::dynamic_shared()

namespace emulation {

enum Operation { SYNCWARP = 1, SHUFFLE, VOTE };

void launch(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& kernel);
unsigned char* dynamic_shared();
uint64_t exchange(Operation operation, unsigned mask, uint64_t value, int source);  // the value of lane `source`
uint32_t vote(unsigned mask, bool value);
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
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulation::exchange(emulation::SYNCWARP, mask, 0, 0); }
template <typename T>
T __shfl_sync(unsigned mask, T value, int source) {
    return emulation::shuffle(mask, value, source);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
    return emulation::shuffle(mask, value, emulation::lane() ^ bits);
}
inline uint32_t __ballot_sync(unsigned mask, bool value) { return emulation::vote(mask, value); }
inline int __all_sync(unsigned mask, bool value) { return emulation::vote(mask, !value) == 0; }

template <typename To, typename From>
To same_bits(From from) {
    To to;
    static_assert(sizeof to == sizeof from, "another size");
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline uint32_t __float_as_uint(float x) { return same_bits<uint32_t>(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline float __uint_as_float(uint32_t x) { return same_bits<float>(x); }

typedef struct CUstream_st* cudaStream_t;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum cudaDeviceAttr { cudaDevAttrMaxSharedMemoryPerBlockOptin };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaGetLastError();
inline const char* cudaGetErrorString(cudaError_t) { return "an error of the emulation"; }
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
    return cudaSuccess;
}
