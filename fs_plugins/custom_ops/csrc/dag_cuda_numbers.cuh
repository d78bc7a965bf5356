// The numbers that the CUDA kernels of the DAG op work with: mantissa * 2^exponent, with an exponent that neither
// underflows nor costs the mantissa its digits, and sums of such numbers times e^link.
//
// A potential x counts as 2^(LOG2_E x). The product is never rounded by itself: fma(x, LOG2_E, whole exponents) is
// small where the term matters, and so rounded to as many digits as the result has, even if x is -300 and holds three
// digits after the point. That LOG2_E is not quite log2(e) only scales all logarithms alike, by 1 part in 10^8
// (float32).
#pragma once

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

namespace exlm {

template <typename T>
struct Constant;
template <>
struct Constant<float> {
    static constexpr float LOG2_E = 1.44269504f, LEAST = -3.4028235e38f;
    static constexpr float WHOLE = 8388608.0f;  // from here on, all numbers are whole
    static constexpr float SHIFT = 57.0f, SMALL = 0x1p24f, SMALLER = 0x1p-34f, SMALLEST = 0x1p-92f,
                           LOST = 0x1p-149f;  // see Weights
};
template <>
struct Constant<double> {
    static constexpr double LOG2_E = 1.4426950408889634, LEAST = -1.7976931348623157e308, WHOLE = 4503599627370496.0;
    static constexpr double SHIFT = 480.0, SMALL = 0x1p4, SMALLER = 0x1p-477, SMALLEST = 0x1p-958, LOST = 0x1p-1074;
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

// x * y, with a mantissa in [1, 2), of positive mantissas whose product is neither denormal nor infinite.
__device__ inline Scaled<float> product(const Scaled<float>& x, const Scaled<float>& y) {
    // 2^23 + the biased exponent, less 2^23 + 127, is the exponent
    const uint32_t bits = __float_as_uint(x.mantissa * y.mantissa);
    const float exponent = __uint_as_float(bits >> 23 | 0x4b000000u) - 8388735.0f;
    return {x.exponent + y.exponent + exponent, __uint_as_float((bits & 0x7fffffu) | 0x3f800000u)};
}
__device__ inline Scaled<double> product(const Scaled<double>& x, const Scaled<double>& y) {
    const int64_t bits = __double_as_longlong(x.mantissa * y.mantissa);
    const double exponent = __longlong_as_double(bits >> 52 | 0x4330000000000000) - 4503599627371519.0;
    return {x.exponent + y.exponent + exponent, __longlong_as_double((bits & 0xfffffffffffff) | 0x3ff0000000000000)};
}

// 2^x for a whole x of at most 127 (float64: 1023); below the normal numbers, and for NaN: 0.
__device__ inline float power_of_two(float x) {  // the low digits of 2^23 + 127 + x become the exponent
    return __uint_as_float(__float_as_uint(fmaxf(x, -127.0f) + 8388735.0f) << 23);
}
__device__ inline double power_of_two(double x) {
    const uint64_t bits = static_cast<uint64_t>(__double_as_longlong(fmax(x, -1023.0) + 4503599627371519.0));
    return __longlong_as_double(static_cast<int64_t>(bits << 52));
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

// The largest, and the sum, of a few numbers, in the order of a tree. NaN is not the largest, unless there are no
// others.
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

// The sum of numbers, some of which may be 0; NaN stays NaN. Each loop is one kind of instruction, so that none waits
// for another's result.
template <int COUNT, typename T>
__device__ Scaled<T> add_up(const Scaled<T> (&numbers)[COUNT]) {
    T exponents[COUNT], terms[COUNT];
#pragma unroll
    for (int j = 0; j < COUNT; ++j) exponents[j] = numbers[j].exponent;
    const T top = largest<COUNT>(exponents), base = larger(top, Constant<T>::LEAST);
#pragma unroll
    for (int j = 0; j < COUNT; ++j) exponents[j] -= base;
#pragma unroll
    for (int j = 0; j < COUNT; ++j) terms[j] = sizeof(T) == 4 ? exp2_of(exponents[j]) : power_of_two(exponents[j]);
    constexpr int CHAINS = COUNT < 4 ? COUNT : 4;
    T sums[CHAINS];
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
        sums[j % CHAINS] =
            j < CHAINS ? terms[j] * numbers[j].mantissa : fused(terms[j], numbers[j].mantissa, sums[j % CHAINS]);
    }
    const T sum = total<CHAINS>(sums);
    return {sum == sum ? top : sum, sum};
}

// sum + the sum over j of nodes[j] * e^links[j], where sum is left out if FIRST. NaN stays NaN, but an edge from a node
// that is 0 is nothing, even if it is NaN.
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
    const T before = FIRST ? T(0) : power_of_two(sum.exponent - base);
#pragma unroll
    for (int j = 0; j < GROUP; ++j) terms[j] = exp2_of(terms[j]);
    T even = terms[0] * nodes.at[0].mantissa, odd = terms[1] * nodes.at[1].mantissa;
    if (!FIRST) even = fused(sum.mantissa, before, even);
#pragma unroll
    for (int j = 2; j < GROUP; j += 2) {
        even = fused(terms[j], nodes.at[j].mantissa, even);
        odd = fused(terms[j + 1], nodes.at[j + 1].mantissa, odd);
    }
    T result = even + odd;
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

// The share that an edge has in the sum of the node it leads to, with the mantissas of node and inverse left out: less
// than 4, and held there where numbers are so large that they are rounded.
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

// The same sum over 16 edges (float64: 8, for want of registers) for the price of a product of matrices, if the edges
// are used again and again: e^links are taken relative to the largest of the 16 and nodes to the largest of 8, as
// numbers of the type of up to 2^SHIFT, and those that underflow are LOST. What is lost is less than 2^-30 (float64:
// 2^-60) of a sum over 8 that comes out at SMALLER or more, or at SMALLEST or more if none is LOST. On the graphs of
// trained models nearly all do; the others are for add_edges. If the sum over 16 comes out at SMALL or more, its halves
// need no exponents of their own, nor does it: what underflows in a sum of such sums, relative to the largest exponent,
// is that little, too.
template <typename T>
constexpr int HALVES = sizeof(T) == 4 ? 2 : 1;
template <typename T>
constexpr int BUNDLE = HALVES<T> * GROUP;
template <typename T>
constexpr int FACTORS = BUNDLE<T> + 1;
template <typename T>
struct alignas(16) Weights {  // of 16 nodes
    T at[BUNDLE<T>];
    T exponent, scales[HALVES<T>];  // the largest one's, less 2 SHIFT; 2^x that takes a half to it
    T exponents[HALVES<T>];         // the same of the halves, for to_usual only
    // All but `exponents`, before any use, in reads of 16 bytes.
    static __device__ Weights load(const Weights* from) {
        constexpr int PACK = 16 / sizeof(T);
        struct alignas(16) Pack {
            T at[PACK];
        };
        union {
            Weights weights;
            Pack packs[sizeof(Weights) / 16];
        } to;
#pragma unroll
        for (int j = 0; j * PACK < BUNDLE<T> + 1 + HALVES<T>; ++j) to.packs[j] = reinterpret_cast<const Pack*>(from)[j];
        return to.weights;
    }
    // By a warp: each lane's node as one of its bundle's weights.
    static __device__ void store(const Scaled<T>& node, Weights* of_bundle, int j) {
        constexpr T WHOLE = Constant<T>::WHOLE, SHIFT = Constant<T>::SHIFT, LEAST = Constant<T>::LEAST;
        // not NaN, nor with an exponent with which sums would be rounded: those are for add_edges
        const bool usual = node.is_zero() || (node.exponent > -WHOLE && node.exponent < WHOLE);
        T top = usual ? node.exponent : static_cast<T>(INFINITY);
        for (int step = 1; step < GROUP; step *= 2) top = larger(top, __shfl_xor_sync(0xffffffffu, top, step));
        const T both = HALVES<T> == 1 ? top : larger(top, __shfl_xor_sync(0xffffffffu, top, GROUP));
        const T weight = node.mantissa * power_of_two(node.exponent - larger(top, LEAST) + SHIFT);
        of_bundle->at[j] = !usual ? static_cast<T>(NAN) : weight == 0 && !node.is_zero() ? Constant<T>::LOST : weight;
        if (j % GROUP != 0) return;
        of_bundle->exponents[j / GROUP] = top - 2 * SHIFT;
        of_bundle->scales[j / GROUP] = power_of_two(top - larger(both, LEAST));
        if (j == 0) of_bundle->exponent = both - 2 * SHIFT;
    }
};
// Links to a node become factors, and, as the last one, their exponent. Without edges: a sum that isn't small, times
// 2^-inf.
template <typename T>
__device__ void to_factors(T (&links)[FACTORS<T>]) {
    constexpr T SHIFT = Constant<T>::SHIFT, MOST = Constant<T>::WHOLE / 2, LOG2_E = Constant<T>::LOG2_E;
    T top = -INFINITY, sum = 0;
#pragma unroll
    for (int j = 0; j < BUNDLE<T>; ++j) top = larger(top, links[j]), sum += links[j];
    links[BUNDLE<T>] = nearest_whole(top * LOG2_E);
    // NaN, or so large that sums would be rounded: for add_edges
    const bool unusual = sum != sum || top * LOG2_E > MOST || (top * LOG2_E < -MOST && top > -INFINITY);
    if (unusual) links[BUNDLE<T>] = 0;
    const bool none = links[BUNDLE<T>] == -INFINITY;
    const T base = none ? T(0) : links[BUNDLE<T>] - SHIFT, least = none ? T(0) : top - 4 * SHIFT;
#pragma unroll
    for (int j = 0; j < BUNDLE<T>; ++j) {
        const T link = larger(links[j], least), exponent = nearest_whole(link * LOG2_E);
        const T factor = exp2_of(fused(link, LOG2_E, -exponent)) * power_of_two(exponent - base);
        links[j] = larger(factor, links[j] > -INFINITY ? Constant<T>::LOST : T(0));
    }
    if (unusual) links[0] = NAN;
}
// sum over j of nodes[j] * e^links[j], and its halves: right from SMALL on, for to_usual below, or if it is NaN.
template <typename T>
__device__ Scaled<T> sum_of_factors(const T (&factors)[FACTORS<T>], const Weights<T>& weights, T (&halves)[HALVES<T>]) {
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
#pragma unroll
        for (int h = 0; h < HALVES<T>; ++h) {
            const T factor = factors[h * GROUP + j], weight = weights.at[h * GROUP + j];
            halves[h] = j == 0 ? factor * weight : fused(factor, weight, halves[h]);
        }
    }
    T sum = weights.scales[0] * halves[0];
    if (HALVES<T> == 2) sum = fused(weights.scales[HALVES<T> - 1], halves[HALVES<T> - 1], sum);
    return {factors[BUNDLE<T>] + weights.exponent, sum};
}
// Makes a sum below SMALL one that is not, from its halves. False, and 0, if it is for add_edges.
template <typename T>
__device__ bool to_usual(Scaled<T>& sum, const T (&halves)[HALVES<T>], const T (&factors)[FACTORS<T>],
                         const Weights<T>& weights, const T (&exponents)[HALVES<T>]) {
    constexpr T SHIFT = Constant<T>::SHIFT;
    Scaled<T> numbers[HALVES<T>];
    bool right = true;
#pragma unroll
    for (int h = 0; h < HALVES<T>; ++h) {
        bool lost = false;
#pragma unroll
        for (int j = h * GROUP; j < (h + 1) * GROUP; ++j) {
            lost |= factors[j] == Constant<T>::LOST || weights.at[j] == Constant<T>::LOST;
        }
        const bool nothing = halves[h] == 0 && !lost;
        right &= nothing || halves[h] >= (lost ? Constant<T>::SMALLER : Constant<T>::SMALLEST);
        const Scaled<T> half = {factors[BUNDLE<T>] + exponents[h], halves[h]}, unit = {-SHIFT, 1};
        numbers[h] = nothing ? Scaled<T>::zero() : product(half, unit);
    }
    sum = right ? add_up(numbers) : Scaled<T>::zero();
    if (right) sum.mantissa *= power_of_two(SHIFT);
    return right;
}

}  // namespace exlm
