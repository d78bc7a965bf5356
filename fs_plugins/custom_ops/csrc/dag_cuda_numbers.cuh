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

constexpr float LOG2_E = 1.44269504f, LEAST = -3.4028235e38f;
constexpr float INTEGER_LIMIT = 8388608.0f;  // from here on, all numbers are whole
// see Weights
constexpr float SHIFT = 57.0f, SMALL = 0x1p24f, SMALLER = 0x1p-34f, SMALLEST = 0x1p-92f, UNDERFLOWED = 0x1p-149f;

__device__ inline float exp2_of(float x) {
#ifdef __CUDA_ARCH__
    float y;  // one instruction, to 2 units in the last place; below 2^-126: 0
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

// mantissa * 2^exponent, where the exponent is a whole number, or -inf for 0, with any finite mantissa. A NaN in either
// makes the number NaN.
struct alignas(8) Scaled {
    float exponent, mantissa;
    static __device__ Scaled zero() { return {-INFINITY, 1}; }
    __device__ bool is_zero() const { return exponent == -INFINITY; }
    __device__ bool is_nan() const { return exponent != exponent || mantissa != mantissa; }
    // As a natural logarithm.
    __device__ float log() const {
        if (is_zero()) return exponent;
        constexpr double SCALE = 1 / static_cast<double>(LOG2_E);
        return static_cast<float>(static_cast<double>(exponent) * SCALE + static_cast<double>(logf(mantissa)));
    }
};

// e^x with a mantissa of about [0.7, 1.4].
__device__ Scaled scaled_exp(float x) {
    if (x == -INFINITY) return Scaled::zero();
    const float exponent = rintf(x * LOG2_E);
    const float rest = fmaf(x, LOG2_E, -exponent);  // beyond INTEGER_LIMIT there is none, only rounding
    return {exponent, exp2_of(fmaxf(fminf(rest, 1.0f), -1.0f))};
}

// x * y, with a mantissa in [1, 2), of positive mantissas whose product is neither denormal nor infinite.
__device__ inline Scaled product(const Scaled& x, const Scaled& y) {
    // 2^23 + the biased exponent, less 2^23 + 127, is the exponent
    const uint32_t bits = __float_as_uint(x.mantissa * y.mantissa);
    const float exponent = __uint_as_float(bits >> 23 | 0x4b000000u) - 8388735.0f;
    return {x.exponent + y.exponent + exponent, __uint_as_float((bits & 0x7fffffu) | 0x3f800000u)};
}

// 2^x for a whole x of at most 127; below the normal numbers, and for NaN: 0.
__device__ inline float power_of_two(float x) {  // the low digits of 2^23 + 127 + x become the exponent
    return __uint_as_float(__float_as_uint(fmaxf(x, -127.0f) + 8388735.0f) << 23);
}

constexpr int GROUP = 8;  // edges into (or out of) a node that a thread adds up at a time

struct Group {
    Scaled at[GROUP];
    __device__ Group() {}
    __device__ explicit Group(const Scaled* from) {  // an address that is a multiple of 16
        constexpr int COUNT = 16 / sizeof(Scaled);
        struct alignas(16) Pack {
            Scaled at[COUNT];
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
template <int COUNT>
__device__ float largest(const float* of) {
    if constexpr (COUNT == 1) return of[0];
    else return fmaxf(largest<COUNT / 2>(of), largest<COUNT - COUNT / 2>(of + COUNT / 2));
}
template <int COUNT>
__device__ float total(const float* of) {
    if constexpr (COUNT == 1) return of[0];
    else return total<COUNT / 2>(of) + total<COUNT - COUNT / 2>(of + COUNT / 2);
}

// The sum of numbers, some of which may be 0; NaN stays NaN. Each loop is one kind of instruction, so that none waits
// for another's result.
template <int COUNT>
__device__ Scaled add_up(const Scaled (&numbers)[COUNT]) {
    float exponents[COUNT], terms[COUNT];
#pragma unroll
    for (int j = 0; j < COUNT; ++j) exponents[j] = numbers[j].exponent;
    const float top = largest<COUNT>(exponents), base = fmaxf(top, LEAST);
#pragma unroll
    for (int j = 0; j < COUNT; ++j) exponents[j] -= base;
#pragma unroll
    for (int j = 0; j < COUNT; ++j) terms[j] = exp2_of(exponents[j]);
    constexpr int CHAINS = COUNT < 4 ? COUNT : 4;
    float sums[CHAINS];
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
        sums[j % CHAINS] =
            j < CHAINS ? terms[j] * numbers[j].mantissa : fmaf(terms[j], numbers[j].mantissa, sums[j % CHAINS]);
    }
    const float sum = total<CHAINS>(sums);
    return {sum == sum ? top : sum, sum};
}

// sum + the sum over j of nodes[j] * e^links[j], where sum is left out if FIRST. NaN stays NaN, but an edge from a node
// that is 0 is nothing, even if it is NaN.
template <bool FIRST>
__device__ Scaled add_edges(const Scaled& sum, const float (&links)[GROUP], const Group& nodes) {
    float terms[GROUP];
#pragma unroll
    for (int j = 0; j < GROUP; ++j) terms[j] = fmaf(links[j], LOG2_E, nodes.at[j].exponent);
    float top = rintf(largest<GROUP>(terms));
    if (!FIRST) top = fmaxf(top, sum.exponent);
    const float base = top == -INFINITY ? 0.0f : top;
#pragma unroll
    for (int j = 0; j < GROUP; ++j) terms[j] = nodes.at[j].exponent - base;
#pragma unroll
    for (int j = 0; j < GROUP; ++j) terms[j] = fmaf(links[j], LOG2_E, terms[j]);
    const float before = FIRST ? 0.0f : power_of_two(sum.exponent - base);
#pragma unroll
    for (int j = 0; j < GROUP; ++j) terms[j] = exp2_of(terms[j]);
    float even = terms[0] * nodes.at[0].mantissa, odd = terms[1] * nodes.at[1].mantissa;
    if (!FIRST) even = fmaf(sum.mantissa, before, even);
#pragma unroll
    for (int j = 2; j < GROUP; j += 2) {
        even = fmaf(terms[j], nodes.at[j].mantissa, even);
        odd = fmaf(terms[j + 1], nodes.at[j + 1].mantissa, odd);
    }
    float result = even + odd;
    // The largest term is at least 2^-1/2. Else there is none, or a NaN, or numbers so large that they are rounded.
    if (result >= 0.5f && result < INTEGER_LIMIT) return {top, result};
    if (result == 0 && top == -INFINITY) return Scaled::zero();
    const bool rounded = base > INTEGER_LIMIT || base < -INTEGER_LIMIT;
    result = FIRST || sum.is_zero() ? 0.0f : sum.mantissa * before;
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
        const float from = nodes.at[j].exponent;
        if (from == -INFINITY) continue;
        const float x = rounded ? fmaf(links[j], LOG2_E, from) - base : fmaf(links[j], LOG2_E, from - base);
        result += nodes.at[j].mantissa * exp2_of(x);
    }
    return {base, result};
}

// 1 / sum of a node over its predecessors, where node = sum * emission. That of 0 is made so that nothing is passed on.
__device__ Scaled inverse_of_zero() {
    return {INFINITY, 0};
}
__device__ Scaled inverse_sum(const Scaled& node, const Scaled& emission) {
    if (node.is_zero()) return inverse_of_zero();
    return {node.exponent - emission.exponent, emission.mantissa / node.mantissa};
}

// The share that an edge has in the sum of the node it leads to, with the mantissas of node and inverse left out: less
// than 4, and held there where numbers are so large that they are rounded.
__device__ float share_of(float link, float difference) {
    return exp2_of(fminf(fmaf(link, LOG2_E, difference), 2.0f));
}

// The same for edges from one node to several, and from several nodes to one.
__device__ void shares_of(const float (&links)[GROUP], float exponent, const Group& sums, float (&shares)[GROUP]) {
#pragma unroll
    for (int j = 0; j < GROUP; ++j) shares[j] = exponent - sums.at[j].exponent;
#pragma unroll
    for (int j = 0; j < GROUP; ++j) shares[j] = share_of(links[j], shares[j]);
}
__device__ void shares_of(const float (&links)[GROUP], const Group& nodes, float sum_exponent, float (&shares)[GROUP]) {
#pragma unroll
    for (int j = 0; j < GROUP; ++j) shares[j] = nodes.at[j].exponent - sum_exponent;
#pragma unroll
    for (int j = 0; j < GROUP; ++j) shares[j] = share_of(links[j], shares[j]);
}

// The same sum over 16 edges for the price of a product of matrices, if the edges are used again and again: e^links are
// taken relative to the largest of the 16 and nodes to the largest of 8, as numbers of the type of up to 2^SHIFT, and
// those that underflow are UNDERFLOWED. What is lost is less than 2^-30 of a sum over 8 that comes out at SMALLER or
// more, or at SMALLEST or more if none is UNDERFLOWED. On the graphs of trained models nearly all do; the others are
// for add_edges. If the sum over 16 comes out at SMALL or more, its halves need no exponents of their own, nor does it:
// what underflows in a sum of such sums, relative to the largest exponent, is that little, too.
constexpr int HALVES = 2;
constexpr int BUNDLE = HALVES * GROUP;
constexpr int FACTORS = BUNDLE + 1;
struct alignas(16) Weights {  // of 16 nodes
    float at[BUNDLE];
    float exponent, scales[HALVES];  // the largest one's, less 2 SHIFT; 2^x that takes a half to it
    float exponents[HALVES];         // the same of the halves, for renormalize only
    // All but `exponents`, before any use, in reads of 16 bytes.
    static __device__ Weights load(const Weights* from) {
        constexpr int PACK = 16 / sizeof(float);
        struct alignas(16) Pack {
            float at[PACK];
        };
        union {
            Weights weights;
            Pack packs[sizeof(Weights) / 16];
        } to;
#pragma unroll
        for (int j = 0; j * PACK < BUNDLE + 1 + HALVES; ++j) to.packs[j] = reinterpret_cast<const Pack*>(from)[j];
        return to.weights;
    }
    // By a warp: each lane's node as one of its bundle's weights.
    static __device__ void store(const Scaled& node, Weights* of_bundle, int j) {
        // not NaN, nor with an exponent with which sums would be rounded: those are for add_edges
        const bool usual = node.is_zero() || (node.exponent > -INTEGER_LIMIT && node.exponent < INTEGER_LIMIT);
        float top = usual ? node.exponent : INFINITY;
        for (int step = 1; step < GROUP; step *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
        const float both = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, GROUP));
        const float weight = node.mantissa * power_of_two(node.exponent - fmaxf(top, LEAST) + SHIFT);
        of_bundle->at[j] = !usual ? NAN : weight == 0 && !node.is_zero() ? UNDERFLOWED : weight;
        if (j % GROUP != 0) return;
        of_bundle->exponents[j / GROUP] = top - 2 * SHIFT;
        of_bundle->scales[j / GROUP] = power_of_two(top - fmaxf(both, LEAST));
        if (j == 0) of_bundle->exponent = both - 2 * SHIFT;
    }
};
// Links to a node become factors, and, as the last one, their exponent. Without edges: a sum that isn't small, times
// 2^-inf.
__device__ void to_factors(float (&links)[FACTORS]) {
    constexpr float MOST = INTEGER_LIMIT / 2;
    float top = -INFINITY, sum = 0;
#pragma unroll
    for (int j = 0; j < BUNDLE; ++j) top = fmaxf(top, links[j]), sum += links[j];
    links[BUNDLE] = rintf(top * LOG2_E);
    // NaN, or so large that sums would be rounded: for add_edges
    const bool unusual = sum != sum || top * LOG2_E > MOST || (top * LOG2_E < -MOST && top > -INFINITY);
    if (unusual) links[BUNDLE] = 0;
    const bool none = links[BUNDLE] == -INFINITY;
    const float base = none ? 0.0f : links[BUNDLE] - SHIFT, least = none ? 0.0f : top - 4 * SHIFT;
#pragma unroll
    for (int j = 0; j < BUNDLE; ++j) {
        const float link = fmaxf(links[j], least), exponent = rintf(link * LOG2_E);
        const float factor = exp2_of(fmaf(link, LOG2_E, -exponent)) * power_of_two(exponent - base);
        links[j] = fmaxf(factor, links[j] > -INFINITY ? UNDERFLOWED : 0.0f);
    }
    if (unusual) links[0] = NAN;
}
// sum over j of nodes[j] * e^links[j], and its halves: right from SMALL on, for renormalize below, or if it is NaN.
__device__ Scaled sum_of_factors(const float (&factors)[FACTORS], const Weights& weights, float (&halves)[HALVES]) {
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
#pragma unroll
        for (int h = 0; h < HALVES; ++h) {
            const float factor = factors[h * GROUP + j], weight = weights.at[h * GROUP + j];
            halves[h] = j == 0 ? factor * weight : fmaf(factor, weight, halves[h]);
        }
    }
    const float sum = fmaf(weights.scales[1], halves[1], weights.scales[0] * halves[0]);
    return {factors[BUNDLE] + weights.exponent, sum};
}
// Makes a sum below SMALL one that is not, from its halves. False, and 0, if it is for add_edges.
__device__ bool renormalize(Scaled& sum, const float (&halves)[HALVES], const float (&factors)[FACTORS],
                            const Weights& weights, const float (&exponents)[HALVES]) {
    Scaled numbers[HALVES];
    bool right = true;
#pragma unroll
    for (int h = 0; h < HALVES; ++h) {
        bool lost = false;
#pragma unroll
        for (int j = h * GROUP; j < (h + 1) * GROUP; ++j) {
            lost |= factors[j] == UNDERFLOWED || weights.at[j] == UNDERFLOWED;
        }
        const bool nothing = halves[h] == 0 && !lost;
        right &= nothing || halves[h] >= (lost ? SMALLER : SMALLEST);
        const Scaled half = {factors[BUNDLE] + exponents[h], halves[h]}, unit = {-SHIFT, 1};
        numbers[h] = nothing ? Scaled::zero() : product(half, unit);
    }
    sum = right ? add_up(numbers) : Scaled::zero();
    if (right) sum.mantissa *= power_of_two(SHIFT);
    return right;
}

}  // namespace exlm
