// The DAG op on NVIDIA GPUs, in float32: see dag.h for the recursion and the shapes.
//
// A launch for each target, so that all multiprocessors can work on a sentence and the launches order the steps:
// forward a block for 32 nodes, backward a warp for a node; then one launch for the gradients of all edges. Each sum
// has one order, so two runs agree bitwise.
//
// A number f(i, u) is mantissa * 2^exponent, two float32 numbers, as neither float32 nor a scale for each row holds the
// range that trained transitions span. The exponent is whole and so loses no digits: a log-probability of -3,000 is as
// precise as one of -3. Sums are taken relative to the exponent of their largest term.
#include "dag.h"

#include <cuda_runtime.h>
#include <math.h>

#ifndef EXLM_LAUNCH  // the tests compile this file as C++, with an emulation of CUDA
#define EXLM_LAUNCH(kernel, grid, stream, ...) kernel<<<grid, dim3(WARPS * WARP), 0, stream>>>(__VA_ARGS__)
#endif

namespace {

constexpr int WARP = 32;
constexpr int WARPS = 8;  // of a block
constexpr int GROUP = 8;  // edges of which a thread computes the gradients
constexpr float LOG2_E = 1.44269504f;
constexpr float ALL_WHOLE = 8388608.0f;  // from here on, all float32 numbers are whole

__device__ float exp2_of(float x) {
#ifdef __CUDA_ARCH__
    float y;  // one instruction, to 2 units in the last place; 0 below 2^-126
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

// mantissa * 2^exponent with a whole exponent, or 0 with the exponent -inf. A NaN in either makes the number NaN.
struct alignas(8) Scaled {
    float exponent, mantissa;
    __device__ bool is_zero() const { return exponent == -INFINITY; }
    __device__ float log() const {
        if (is_zero()) return exponent;
        return static_cast<float>(exponent / static_cast<double>(LOG2_E) + static_cast<double>(logf(mantissa)));
    }
};

__device__ Scaled zero() { return {-INFINITY, 1}; }

// 1 / 0, as the inverse of a node that no path passes: whatever is divided by it is 0.
__device__ Scaled inverse_of_zero() { return {INFINITY, 0}; }

// e^x, with a mantissa of about [0.7, 1.4].
__device__ Scaled scaled_exp(float x) {
    if (x == -INFINITY) return zero();
    const float exponent = rintf(x * LOG2_E);
    const float rest = fmaf(x, LOG2_E, -exponent);  // a rounding error if x is very large: hence the limits
    return {exponent, exp2_of(fmaxf(fminf(rest, 1.0f), -1.0f))};
}

// x * y, with a mantissa in [0.5, 1).
__device__ Scaled product(const Scaled& x, const Scaled& y) {
    if (x.is_zero() || y.is_zero()) return zero();
    int exponent;
    const float mantissa = frexpf(x.mantissa * y.mantissa, &exponent);
    return {x.exponent + y.exponent + static_cast<float>(exponent), mantissa};
}

// The sum of nodes[v] * e^links[v][0] over v = first, first + WARPS, ... last. An edge from a node that is 0 is nothing,
// even if it is NaN.
__device__ Scaled sum_over_edges(const Scaled* nodes, const float* links, int64_t L, int first, int last) {
    float top = -INFINITY;
    for (int v = first; v <= last; v += WARPS) top = fmaxf(top, fmaf(links[v * L], LOG2_E, nodes[v].exponent));
    const float base = top == -INFINITY ? 0.0f : rintf(top);
    // The exponents are subtracted before the link is added: the small difference then keeps the digits of the link.
    // If `base` is so large that it was rounded, its distance from the sum must not be.
    const bool rounded = fabsf(base) >= ALL_WHOLE;
    float sum = 0;
    for (int v = first; v <= last; v += WARPS) {
        const float link = links[v * L], exponent = nodes[v].exponent;
        if (exponent == -INFINITY) continue;
        const float x = rounded ? fmaf(link, LOG2_E, exponent) - base : fmaf(link, LOG2_E, exponent - base);
        sum += nodes[v].mantissa * exp2_of(x);
    }
    return sum == 0 ? zero() : Scaled{base, sum};
}

// Of node * e^link * inverse without the mantissas, where inverse is 1 / a sum that this is a term of: less than 4, and
// held there if the exponents are so large that they were rounded.
__device__ float share(const Scaled& node, float link, const Scaled& inverse) {
    return exp2_of(fminf(fmaf(link, LOG2_E, node.exponent - inverse.exponent), 2.0f));
}

__device__ float warp_sum(float x) {
    for (int step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

// A sentence's part of the trellis: nodes first(i) .. last(i) at target i are on the paths from the first to the last
// node. m = n = 0: no path, because of the lengths (those out of range included).
struct Band {
    int n, m;  // nodes, targets
    __device__ Band(int64_t nodes, int64_t targets, int64_t M, int64_t L) : n(0), m(0) {
        const bool in_range = targets >= 1 && targets <= M && nodes >= 1 && nodes <= L;
        if (!in_range || nodes < targets || (targets == 1 && nodes > 1)) return;
        n = static_cast<int>(nodes);
        m = static_cast<int>(targets);
    }
    __device__ int first(int i) const { return i == m - 1 ? n - 1 : i; }
    __device__ int last(int i) const { return i == 0 ? 0 : n - m + i; }
    __device__ bool holds(int i, int u) const { return i < m && u >= first(i) && u <= last(i); }
};

// What the backward pass needs to know of sentence b. If it has no path or no gradient, its band is empty.
struct Sentence {
    Band band;
    const Scaled* alpha;  // [M][L]
    float grad;           // of log_prob; NaN if log_prob is
    __device__ Sentence(const int64_t* node_lengths, const int64_t* target_lengths, const float* grad_log_prob,
                        const Scaled* alphas, int64_t b, int64_t M, int64_t L)
        : band(node_lengths[b], target_lengths[b], M, L), alpha(alphas + b * M * L), grad(grad_log_prob[b]) {
        const Scaled end = band.m == 0 ? zero() : alpha[(band.m - 1) * L + band.n - 1];
        if (end.is_zero() || grad == 0) band.m = band.n = 0;
        if (end.mantissa != end.mantissa || end.exponent != end.exponent) grad = NAN;
    }
};

// Row i of alpha. A lane for node u, whose edges the warps share.
__global__ void __launch_bounds__(WARPS* WARP)
    forward_step(const float* match, const float* links, const int64_t* node_lengths, const int64_t* target_lengths,
                 Scaled* alpha, int64_t M, int64_t L, int i) {
    __shared__ Scaled parts[WARPS][WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, u = blockIdx.y * WARP + lane;
    const int64_t b = blockIdx.x, row = (b * M + i) * L;
    const Band band(node_lengths[b], target_lengths[b], M, L);
    Scaled part = zero();
    if (band.holds(i, u)) {
        if (i > 0) {
            part = sum_over_edges(alpha + row - L, links + b * L * L + u, L, band.first(i - 1) + warp,
                                  min(band.last(i - 1), u - 1));
        } else if (warp == 0) {
            part = {0, 1};  // the beginning of all paths
        }
    }
    parts[warp][lane] = part;
    __syncthreads();
    if (warp > 0 || u >= L) return;
    float top = -INFINITY, sum = 0;
    for (int w = 0; w < WARPS; ++w) top = fmaxf(top, parts[w][lane].exponent);
    const float base = top == -INFINITY ? 0.0f : top;
    for (int w = 0; w < WARPS; ++w) sum += parts[w][lane].mantissa * exp2_of(parts[w][lane].exponent - base);
    alpha[row + u] = sum == 0 ? zero() : product({base, sum}, scaled_exp(match[row + u]));
}

__global__ void __launch_bounds__(WARPS* WARP)
    read_log_probs(const int64_t* node_lengths, const int64_t* target_lengths, const Scaled* alpha, float* log_prob,
                   int64_t B, int64_t M, int64_t L) {
    const int64_t b = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (b >= B) return;
    const Band band(node_lengths[b], target_lengths[b], M, L);
    log_prob[b] = band.m == 0 ? -INFINITY : alpha[(b * M + band.m - 1) * L + band.n - 1].log();
}

// Row i of grad_match and of `ratios`, from row i + 1 of that: ratios[b][i][v] is the posterior of node v at target i
// times 1 / (the sum over its predecessors, f(i, v) / emission). A warp for node v.
__global__ void __launch_bounds__(WARPS* WARP)
    backward_step(const float* grad_log_prob, const float* match, const float* links, const int64_t* node_lengths,
                  const int64_t* target_lengths, const Scaled* alphas, float* grad_match, Scaled* ratios, int64_t M,
                  int64_t L, int i) {
    const int lane = threadIdx.x % WARP, v = blockIdx.y * WARPS + threadIdx.x / WARP;
    const int64_t b = blockIdx.x, entry = (b * M + i) * L + v;
    if (v >= L) return;
    const Sentence sentence(node_lengths, target_lengths, grad_log_prob, alphas, b, M, L);
    const Band& band = sentence.band;
    const Scaled node = band.holds(i, v) ? sentence.alpha[i * L + v] : zero();
    float posterior = 0;
    Scaled ratio = inverse_of_zero();
    if (!node.is_zero()) {
        const float* const from = links + (b * L + v) * L;
        const Scaled* const next = ratios + (b * M + i + 1) * L;
        if (i < band.m - 1) {
            for (int u = max(v + 1, band.first(i + 1)) + lane; u <= band.last(i + 1); u += WARP) {
                posterior += next[u].mantissa * share(node, from[u], next[u]);
            }
            posterior = node.mantissa * warp_sum(posterior);
        } else {
            posterior = 1;
        }
        const Scaled emission = scaled_exp(match[entry]);
        ratio = {node.exponent - emission.exponent, posterior * (emission.mantissa / node.mantissa)};
    }
    if (lane > 0) return;
    ratios[entry] = ratio;
    grad_match[entry] = i < band.m && v < band.n ? sentence.grad * posterior : 0.0f;
}

// A lane for node u and the edges to it from GROUP nodes: the sum of their shares over all targets.
__global__ void __launch_bounds__(WARPS* WARP)
    edge_gradients(const float* grad_log_prob, const float* links, const int64_t* node_lengths,
                   const int64_t* target_lengths, const Scaled* alphas, const Scaled* ratios, float* grad_links,
                   int64_t M, int64_t L) {
    const int u = blockIdx.y * WARP + threadIdx.x % WARP;
    const int v0 = (blockIdx.z * WARPS + threadIdx.x / WARP) * GROUP;
    const int64_t b = blockIdx.x;
    const Sentence sentence(node_lengths, target_lengths, grad_log_prob, alphas, b, M, L);
    const Band& band = sentence.band;
    float edges[GROUP], sums[GROUP];
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
        edges[j] = v0 + j < u && u < band.n ? links[(b * L + v0 + j) * L + u] : -INFINITY;
        sums[j] = 0;
    }
    // targets at which u is in the band, and one of these v at the target before
    const int last = v0 < u && u < band.n ? min(min(band.m - 1, u), v0 + GROUP) : 0;
    for (int i = max(1, u - (band.n - band.m)); i <= last; ++i) {
        const Scaled to = ratios[(b * M + i) * L + u];
        const Scaled* const from = sentence.alpha + (i - 1) * L + v0;
        if (to.mantissa == 0) continue;
#pragma unroll
        for (int j = 0; j < GROUP; ++j) {
            if (v0 + j >= u || from[j].is_zero()) continue;
            sums[j] += from[j].mantissa * (to.mantissa * share(from[j], edges[j], to));
        }
    }
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
        if (v0 + j >= L || u >= L) continue;
        grad_links[(b * L + v0 + j) * L + u] = v0 + j < u && u < band.n ? sentence.grad * sums[j] : 0.0f;
    }
}

unsigned blocks(int64_t work, int64_t each) { return static_cast<unsigned>(work > 0 ? (work + each - 1) / each : 1); }

}  // namespace

int exlm_dag_version(void) { return EXLM_DAG_VERSION; }

const char* exlm_dag_error_string_cuda(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }

int exlm_dag_forward_cuda(int64_t B, int64_t M, int64_t L, const float* match, const float* links,
                          const int64_t* node_lengths, const int64_t* target_lengths, float* log_prob, float* alpha_,
                          void* stream_) {
    if (B == 0) return EXLM_DAG_OK;
    const auto stream = static_cast<cudaStream_t>(stream_);
    Scaled* const alpha = reinterpret_cast<Scaled*>(alpha_);
    const dim3 slices(static_cast<unsigned>(B), blocks(L, WARP));
    for (int i = 0; i < M; ++i) {
        EXLM_LAUNCH(forward_step, slices, stream, match, links, node_lengths, target_lengths, alpha, M, L, i);
    }
    EXLM_LAUNCH(read_log_probs, dim3(blocks(B, WARPS * WARP)), stream, node_lengths, target_lengths, alpha, log_prob, B,
                M, L);
    return cudaGetLastError();
}

int exlm_dag_backward_cuda(int64_t B, int64_t M, int64_t L, const float* grad_log_prob, const float* match,
                           const float* links, const int64_t* node_lengths, const int64_t* target_lengths,
                           const float* alpha_, float* grad_match, float* grad_links, float* workspace, void* stream_) {
    if (B == 0 || L == 0) return EXLM_DAG_OK;
    const auto stream = static_cast<cudaStream_t>(stream_);
    const Scaled* const alpha = reinterpret_cast<const Scaled*>(alpha_);
    Scaled* const ratios = reinterpret_cast<Scaled*>(workspace);
    const unsigned batch = static_cast<unsigned>(B);
    for (int i = static_cast<int>(M) - 1; i >= 0; --i) {
        EXLM_LAUNCH(backward_step, dim3(batch, blocks(L, WARPS)), stream, grad_log_prob, match, links, node_lengths,
                    target_lengths, alpha, grad_match, ratios, M, L, i);
    }
    EXLM_LAUNCH(edge_gradients, dim3(batch, blocks(L, WARP), blocks(L, GROUP * WARPS)), stream, grad_log_prob, links,
                node_lengths, target_lengths, alpha, ratios, grad_links, M, L);
    return cudaGetLastError();
}
