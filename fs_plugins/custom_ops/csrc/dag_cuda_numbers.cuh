// The numbers that the CUDA kernels of the DAG op work with: mantissa * 2^exponent, with an exponent that neither
// underflows nor costs the mantissa its digits, and sums of such numbers times e^link.
//
// A potential x counts as 2^(LOG2_E x). The product is never rounded by itself: fma(x, LOG2_E, whole exponents) is small
// where the term matters, and so rounded to as many digits as the result has, even if x is -300 and holds three digits
// after the point. That LOG2_E is not quite log2(e) only scales all logarithms alike, by 1 part in 10^8 (float32).
#pragma once

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

namespace exlm {

template <typename T>
struct Constant;
template <>
struct Constant<float> {
    static constexpr float LOG2_E = 1.44269504f, WHOLE = 8388608.0f;  // from WHOLE on, all numbers are whole
};
template <>
struct Constant<double> {
    static constexpr double LOG2_E = 1.4426950408889634, WHOLE = 4503599627370496.0;
};

__device__ inline float exp2_of(float x) {
#ifdef __CUDA_ARCH__
    float y;  // one instruction, to 2 units in the last place; below 2^-126: 0
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}
__device__ inline double exp2_of(double x) { return exp2(x); }
__device__ inline float log_of(float x) { return logf(x); }
__device__ inline double log_of(double x) { return log(x); }
__device__ inline float nearest_whole(float x) { return rintf(x); }
__device__ inline double nearest_whole(double x) { return rint(x); }
__device__ inline float fused(float x, float y, float z) { return fmaf(x, y, z); }
__device__ inline double fused(double x, double y, double z) { return fma(x, y, z); }
__device__ inline float larger(float x, float y) { return fmaxf(x, y); }  // of a NaN and a number: the number
__device__ inline double larger(double x, double y) { return fmax(x, y); }
__device__ inline float smaller(float x, float y) { return fminf(x, y); }
__device__ inline double smaller(double x, double y) { return fmin(x, y); }

// mantissa * 2^exponent, where the exponent is a whole number, or -inf for 0, with any finite mantissa. A NaN in either
// makes the number NaN.
template <typename T>
struct alignas(2 * sizeof(T)) Scaled {
    T exponent, mantissa;
    static __device__ Scaled zero() { return {static_cast<T>(-INFINITY), 1}; }
    __device__ bool is_zero() const { return exponent == -INFINITY; }
    __device__ bool is_nan() const { return exponent != exponent || mantissa != mantissa; }
    // As a natural logarithm.
    __device__ T log() const {
        if (is_zero()) return exponent;
        constexpr double SCALE = 1 / static_cast<double>(Constant<T>::LOG2_E);
        return static_cast<T>(static_cast<double>(exponent) * SCALE + static_cast<double>(log_of(mantissa)));
    }
};

// e^x with a mantissa of about [0.7, 1.4].
template <typename T>
__device__ Scaled<T> scaled_exp(T x) {
    if (x == -INFINITY) return Scaled<T>::zero();
    const T exponent = nearest_whole(x * Constant<T>::LOG2_E);
    const T rest = fused(x, Constant<T>::LOG2_E, -exponent);  // beyond WHOLE there is none, only rounding
    return {exponent, exp2_of(larger(smaller(rest, T(1)), T(-1)))};
}

// x * y, with a mantissa in [1, 2), of positive mantissas that aren't denormal.
__device__ inline Scaled<float> product(const Scaled<float>& x, const Scaled<float>& y) {
    const float mantissa = x.mantissa * y.mantissa;
    const uint32_t biased = __float_as_uint(mantissa) >> 23;
    const float exponent = __uint_as_float(biased | 0x4b000000u) - 8388735.0f;  // (2^23 + biased) - (2^23 + 127)
    return {x.exponent + y.exponent + exponent, mantissa * __uint_as_float((254u - biased) << 23)};
}
__device__ inline Scaled<double> product(const Scaled<double>& x, const Scaled<double>& y) {
    const double mantissa = x.mantissa * y.mantissa;
    const int64_t biased = __double_as_longlong(mantissa) >> 52;
    const double exponent = __longlong_as_double(biased | 0x4330000000000000) - 4503599627371519.0;
    return {x.exponent + y.exponent + exponent, mantissa * __longlong_as_double((2046 - biased) << 52)};
}

constexpr int GROUP = 8;  // edges into (or out of) a node that a thread adds up at a time

template <typename T>
struct Group {
    Scaled<T> at[GROUP];
    __device__ Group() {}
    __device__ explicit Group(const Scaled<T>* from) {  // an address that is a multiple of 16
        constexpr int COUNT = 16 / sizeof(Scaled<T>);
        struct alignas(16) Pack {
            Scaled<T> at[COUNT];
        };
#pragma unroll
        for (int j = 0; j < GROUP; j += COUNT) {
            const Pack pack = *reinterpret_cast<const Pack*>(from + j);
#pragma unroll
            for (int l = 0; l < COUNT; ++l) at[j + l] = pack.at[l];
        }
    }
};

// The largest, and the sum, of a few numbers, in the order of a tree. NaN is not the largest, unless there are no others.
template <int COUNT, typename T>
__device__ T largest(const T* of) {
    if constexpr (COUNT == 1) return of[0];
    else return larger(largest<COUNT / 2>(of), largest<COUNT - COUNT / 2>(of + COUNT / 2));
}
template <int COUNT, typename T>
__device__ T total(const T* of) {
    if constexpr (COUNT == 1) return of[0];
    else return total<COUNT / 2>(of) + total<COUNT - COUNT / 2>(of + COUNT / 2);
}

// The sum of numbers, some of which may be 0; NaN stays NaN. Each loop is one kind of instruction, so that none waits for
// another's result.
template <int COUNT, typename T>
__device__ Scaled<T> add_up(const Scaled<T> (&numbers)[COUNT]) {
    T exponents[COUNT], terms[COUNT];
#pragma unroll
    for (int j = 0; j < COUNT; ++j) exponents[j] = numbers[j].exponent;
    const T top = largest<COUNT>(exponents), base = top == -INFINITY ? T(0) : top;
#pragma unroll
    for (int j = 0; j < COUNT; ++j) exponents[j] -= base;
#pragma unroll
    for (int j = 0; j < COUNT; ++j) terms[j] = exp2_of(exponents[j]);
#pragma unroll
    for (int j = 0; j < COUNT; ++j) terms[j] *= numbers[j].mantissa;
    const T sum = total<COUNT>(terms);
    return {sum == sum ? top : sum, sum};
}

// sum + the sum over j of nodes[j] * e^links[j], where sum is left out if FIRST. NaN stays NaN, but an edge from a node that
// is 0 is nothing, even if it is NaN.
template <bool FIRST, typename T>
__device__ Scaled<T> add_edges(const Scaled<T>& sum, const T (&links)[GROUP], const Group<T>& nodes) {
    constexpr T LOG2_E = Constant<T>::LOG2_E;
    T terms[GROUP];
#pragma unroll
    for (int j = 0; j < GROUP; ++j) terms[j] = fused(links[j], LOG2_E, nodes.at[j].exponent);
    T top = nearest_whole(largest<GROUP>(terms));
    if (!FIRST) top = larger(top, sum.exponent);
    const T base = top == -INFINITY ? T(0) : top;
#pragma unroll
    for (int j = 0; j < GROUP; ++j) terms[j] = nodes.at[j].exponent - base;
#pragma unroll
    for (int j = 0; j < GROUP; ++j) terms[j] = fused(links[j], LOG2_E, terms[j]);
    const T before = FIRST ? T(0) : exp2_of(sum.exponent - base);
#pragma unroll
    for (int j = 0; j < GROUP; ++j) terms[j] = exp2_of(terms[j]);
#pragma unroll
    for (int j = 0; j < GROUP; ++j) terms[j] *= nodes.at[j].mantissa;
    T result = total<GROUP>(terms);
    if (!FIRST) result += sum.mantissa * before;
    // The largest term is at least 2^-1/2. Else there is none, or a NaN, or numbers so large that they are rounded.
    if (result >= T(0.5) && result < Constant<T>::WHOLE) return {top, result};
    if (result == 0 && top == -INFINITY) return Scaled<T>::zero();
    const bool rounded = base > Constant<T>::WHOLE || base < -Constant<T>::WHOLE;
    result = FIRST || sum.is_zero() ? T(0) : sum.mantissa * before;
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
        const T from = nodes.at[j].exponent;
        if (from == -INFINITY) continue;
        const T x = rounded ? fused(links[j], LOG2_E, from) - base : fused(links[j], LOG2_E, from - base);
        result += nodes.at[j].mantissa * exp2_of(x);
    }
    return {base, result};
}

// 1 / sum of a node over its predecessors, where node = sum * emission. That of 0 is made so that nothing is passed on.
template <typename T>
__device__ Scaled<T> inverse_of_zero() {
    return {static_cast<T>(INFINITY), 0};
}
template <typename T>
__device__ Scaled<T> inverse_sum(const Scaled<T>& node, const Scaled<T>& emission) {
    if (node.is_zero()) return inverse_of_zero<T>();
    return {node.exponent - emission.exponent, emission.mantissa / node.mantissa};
}

// The share that an edge has in the sum of the node it leads to, with the mantissas of node and inverse left out: less than 4,
// and held there where numbers are so large that they are rounded.
template <typename T>
__device__ T share_of(T link, T difference) {
    return exp2_of(smaller(fused(link, Constant<T>::LOG2_E, difference), T(2)));
}

// The same for edges from one node to several, and from several nodes to one.
template <typename T>
__device__ void shares_of(const T (&links)[GROUP], T exponent, const Group<T>& sums, T (&shares)[GROUP]) {
#pragma unroll
    for (int j = 0; j < GROUP; ++j) shares[j] = exponent - sums.at[j].exponent;
#pragma unroll
    for (int j = 0; j < GROUP; ++j) shares[j] = share_of(links[j], shares[j]);
}
template <typename T>
__device__ void shares_of(const T (&links)[GROUP], const Group<T>& nodes, T sum_exponent, T (&shares)[GROUP]) {
#pragma unroll
    for (int j = 0; j < GROUP; ++j) shares[j] = nodes.at[j].exponent - sum_exponent;
#pragma unroll
    for (int j = 0; j < GROUP; ++j) shares[j] = share_of(links[j], shares[j]);
}

}  // namespace exlm
