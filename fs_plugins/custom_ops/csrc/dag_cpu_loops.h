// The inner loops of dag_cpu.cpp, over rows of doubles; all ranges include their last index.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

// One binary serves every x86-64 processor: the loader picks the variant for the machine's vector unit. (Variants by
// level or feature: those by the name of a processor are picked on that very processor only.)
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#if __GNUC__ >= 12
#define EXLM_VECTORISED __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define EXLM_VECTORISED __attribute__((target_clones("default", "avx2", "avx512f")))
#endif
#define EXLM_INLINE __attribute__((always_inline)) inline
#else
#define EXLM_VECTORISED
#define EXLM_INLINE inline
#endif

namespace {

// While it lives, results of this thread that would be denormal are 0: they can't matter here, and cost a hundred times
// an ordinary one.
class FlushDenormals {
#if defined(__SSE__)
    const unsigned before = _mm_getcsr();

public:
    FlushDenormals() { _mm_setcsr(before | 0x8000); }
    ~FlushDenormals() { _mm_setcsr(before); }
    FlushDenormals(const FlushDenormals&) = delete;
    FlushDenormals& operator=(const FlushDenormals&) = delete;
#endif
};

// The polynomial in x with these coefficients, that of the highest power first.
template <typename... Coefficients>
EXLM_INLINE double polynomial(double x, double sum, Coefficients... others) {
    ((sum = sum * x + others), ...);
    return sum;
}

// exp(x) without a call or a branch, so that loops over it vectorise: within 2 units in the last place, 0 below -708,
// infinite above 709, NaN for NaN. x = k log 2 + r with |r| <= log 2 / 2; exp(r) by its series, 2^k by its exponent
// bits.
EXLM_INLINE double exp_inline(double x) {
    constexpr double SHIFT = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves round(x) in the low bits
    const double clamped = x < -708.0 ? -708.0 : (x > 709.0 ? 709.0 : x);
    const double shifted = clamped * 1.4426950408889634 + SHIFT;
    const double k = shifted - SHIFT;
    const double r = (clamped - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    const double sum = polynomial(r, 1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
                                  1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0,
                                  1.0 / 6.0, 0.5, 1.0, 1.0);
    uint64_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    double power;
    std::memcpy(&power, &bits, sizeof power);
    const double value = sum * power;
    return x < -708.0 ? 0.0 : (x > 709.0 ? std::numeric_limits<double>::infinity() : value);
}

// log(x) for x >= 1e-300 likewise: x = 2^k m with m in [sqrt(1/2), sqrt(2)), log(m) = 2 artanh((m - 1) / (m + 1)).
EXLM_INLINE double log_inline(double x) {
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const uint64_t shifted = bits + (0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull);  // sqrt(1/2) becomes 1
    const uint64_t exponent_bits = (shifted >> 52) | 0x4330000000000000ull;           // as the low bits of 2^52
    const uint64_t mantissa_bits = (shifted & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull;
    double k, m;
    std::memcpy(&k, &exponent_bits, sizeof k);
    std::memcpy(&m, &mantissa_bits, sizeof m);
    k -= 4503599627370496.0 + 1023.0;
    const double t = (m - 1.0) / (m + 1.0), t2 = t * t;
    const double sum = polynomial(t2, 1.0 / 23.0, 1.0 / 21.0, 1.0 / 19.0, 1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0,
                                  1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0);
    return k * 6.93147180369123816490e-01 + (2.0 * t + (2.0 * t * t2 * sum + k * 1.90821492927058770002e-10));
}

// sums[j] = shift + log(sums[j]), j in first .. last, for sums of at least `least`; returns whether one is below.
// NaN stays NaN, and infinity becomes NaN.
EXLM_VECTORISED
bool log_row(double shift, double least, int64_t first, int64_t last, const double* sums, double* out) {
    double smallest = least;
    for (int64_t j = first; j <= last; ++j) smallest = sums[j] < smallest ? sums[j] : smallest;
    for (int64_t j = first; j <= last; ++j) {
        out[j] = sums[j] < std::numeric_limits<double>::infinity() ? shift + log_inline(sums[j])
                                                                   : std::numeric_limits<double>::quiet_NaN();
    }
    return smallest < least;
}

// out[j] = exp(sign * (in[j] - shift)), j in first .. last.
EXLM_VECTORISED
void exp_row(const double* in, double shift, double sign, int64_t first, int64_t last, double* out) {
    for (int64_t j = first; j <= last; ++j) out[j] = exp_inline(sign * (in[j] - shift));
}

// edges[v][u] = exp(links[v][u]) for v < u < n.
EXLM_VECTORISED
void exp_edges(const float* links, int64_t n, int64_t L, double* edges) {
    for (int64_t v = 0; v < n; ++v) {
        for (int64_t u = v + 1; u < n; ++u) edges[v * L + u] = exp_inline(static_cast<double>(links[v * L + u]));
    }
}
EXLM_VECTORISED
void exp_edges(const double* links, int64_t n, int64_t L, double* edges) {
    for (int64_t v = 0; v < n; ++v) {
        for (int64_t u = v + 1; u < n; ++u) edges[v * L + u] = exp_inline(links[v * L + u]);
    }
}

// sums[u] = sum over v of weights[v] * edges[v][u], for v in v0 .. v1 and v < u in u0 .. u1.
EXLM_VECTORISED
void propagate(const double* weights, const double* edges, int64_t L, int64_t v0, int64_t v1, int64_t u0, int64_t u1,
               double* sums) {
    for (int64_t u = u0; u <= u1; ++u) sums[u] = 0.0;
    for (int64_t v = v0; v <= v1; ++v) {
        const double weight = weights[v];
        if (weight == 0.0) continue;
        const double* row = edges + v * L;
        for (int64_t u = std::max(u0, v + 1); u <= u1; ++u) sums[u] += weight * row[u];
    }
}

// shares[v] += weights[v] * sum over u of edges[v][u] * ratios[u], for v in v0 .. v1 and v < u in u0 .. u1.
EXLM_VECTORISED
void collect(const double* weights, const double* edges, const double* ratios, int64_t L, int64_t v0, int64_t v1,
             int64_t u0, int64_t u1, double* shares) {
    for (int64_t v = v0; v <= v1; ++v) {
        if (weights[v] == 0.0) continue;
        const double* row = edges + v * L;
        double lanes[16] = {};  // a sum in a fixed order that vectorises without reassociation
        int64_t u = std::max(u0, v + 1);
        for (; u + 16 <= u1 + 1; u += 16) {
            for (int j = 0; j < 16; ++j) lanes[j] += row[u + j] * ratios[u + j];
        }
        double sum = 0.0;
        for (int j = 0; j < 8; ++j) sum += lanes[j] + lanes[j + 8];
        for (; u <= u1; ++u) sum += row[u] * ratios[u];
        shares[v] += weights[v] * sum;
    }
}

constexpr int STRIP = 32;

// flow[v][u - u0] = edges[v][u] * sum over rows of weights[row][v] * ratios[row][u], for v < u < n and u in u0 .. u0 +
// STRIP - 1: a product of two matrices, in which these u stay in the registers. rows: those whose ratios here aren't
// all 0, in the order of their targets; start[i]: the first one of targets from i on.
EXLM_VECTORISED
void accumulate_flow(const double* weights, const double* ratios, const double* edges, const int64_t* rows,
                     const int64_t* start, int64_t m, int64_t n, int64_t L, int64_t u0, double* flow) {
    const int64_t width = std::min<int64_t>(STRIP, n - u0);
    for (int64_t v = 0; v < u0 + width - 1; ++v) {
        double sums[STRIP] = {};
        // edge v -> u is passed at target i only if v can stand at i - 1 and u at i
        const int64_t i0 = std::max<int64_t>(1, v - (n - m) + 1), i1 = std::min(m - 1, v + 1);
        for (int64_t r = start[i0]; r < start[i1 + 1]; ++r) {
            const double weight = weights[rows[r] * L + v];
            if (weight == 0.0) continue;
            const double* row = ratios + rows[r] * L + u0;
            if (width == STRIP) {
                for (int j = 0; j < STRIP; ++j) sums[j] += weight * row[j];
            } else {
                for (int j = 0; j < width; ++j) sums[j] += weight * row[j];
            }
        }
        for (int64_t u = std::max(u0, v + 1); u < u0 + width; ++u)
            flow[v * STRIP + u - u0] = edges[v * L + u] * sums[u - u0];
    }
}

}  // namespace
