// The DAG op on NVIDIA GPUs: the C functions of dag.h, which choose between the kernels for sentences that fit on one
// multiprocessor (dag_cuda_sentence.cuh) and those for any size (dag_cuda_steps.cuh).
#include "dag_cuda_edges.cuh"
#include "dag_cuda_sentence.cuh"
#include "dag_cuda_steps.cuh"

#include <type_traits>

#ifndef EXLM_SOURCE_HASH
#define EXLM_SOURCE_HASH "unknown"
#endif

// For benchmarks: whether the kernels for any size serve all sentences, in this process.
EXLM_API void exlm_dag_any_size_cuda(int always);

namespace {

using namespace exlm;

int always_any_size = 0;

constexpr int64_t MOST_NODES = 16352, MOST_TARGETS = 1 << 20;

constexpr int64_t blocks(int64_t work, int64_t each) { return work > 0 ? (work + each - 1) / each : 1; }

bool sizes_are_good(int64_t B, int64_t M, int64_t L) {
    return B >= 0 && B <= INT32_MAX && M >= 0 && M <= MOST_TARGETS && L >= 0 && L <= MOST_NODES;
}

// Tiles of a warp that its registers hold: all, where there is one; else as many as there are registers for.
constexpr std::integral_constant<int, 1> ONE;
template <Pass PASS>
constexpr std::integral_constant<int, PASS == SUM_OF_PATHS ? 5 : 11> MANY;

// The tiles of a warp in registers, of the kernels for sentences of up to L nodes: 1 or MANY. 0 if a block's part of
// the problem does not fit into the shared memory that the current device gives to a block: `most` bytes. Errors are
// handed out, and not left behind for the next caller of cudaGetLastError.
template <Pass PASS>
int fits_on_chip(int L, int* most, cudaError_t* error) {
    int device = 0;
    *error = cudaGetDevice(&device);
    if (always_any_size) return 0;
    if (*error == cudaSuccess) *error = cudaDeviceGetAttribute(most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (*error != cudaSuccess) return cudaGetLastError(), 0;
    const TileLayout<1, PASS> one(L);
    if (one.each == 1) return one.bytes() <= *most ? 1 : 0;
    constexpr int OWN = MANY<PASS>.value;
    const TileLayout<OWN, PASS> many(L);
    return many.slices <= many.warps && many.bytes() <= *most ? OWN : 0;
}

// Beyond the 48 KB that any kernel may have; always the device's most, so that threads with sentences of different
// sizes don't take it from each other.
template <typename Kernel>
cudaError_t allow_shared(Kernel kernel, int64_t bytes, int most) {
    if (bytes <= 48 * 1024) return cudaSuccess;
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    if (error != cudaSuccess) cudaGetLastError();
    return error;
}

// Launches a kernel of dag_cuda_sentence.cuh with a block for each sentence.
template <int OWN, Pass PASS, typename... Parameters, typename... Arguments>
int launch_on_chip(void (*kernel)(Parameters...), int64_t B, int L, int most, cudaStream_t stream,
                   Arguments... arguments) {
    const TileLayout<OWN, PASS> layout(L);
    const cudaError_t error = allow_shared(kernel, layout.bytes(), most);
    if (error != cudaSuccess) return error;
    EXLM_LAUNCH(kernel, dim3(static_cast<unsigned>(B)), dim3(layout.warps * WARP), layout.bytes(), stream,
                arguments...);
    return cudaGetLastError();
}

}  // namespace

void exlm_dag_any_size_cuda(int always) { always_any_size = always; }

const char* exlm_dag_source_hash(void) { return EXLM_SOURCE_HASH; }

const char* exlm_dag_error_string_cuda(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }

int exlm_dag_forward_cuda(int64_t B, int64_t M, int64_t L, const float* match, const float* links,
                          const int64_t* node_lengths, const int64_t* target_lengths, float* log_prob, float* alpha_,
                          void* stream_) {
    if (!sizes_are_good(B, M, L)) return EXLM_DAG_TOO_LARGE;
    if (B == 0) return EXLM_DAG_OK;
    const auto stream = static_cast<cudaStream_t>(stream_);
    Scaled* const alpha = reinterpret_cast<Scaled*>(alpha_);
    const unsigned batch = static_cast<unsigned>(B);
    const int targets = static_cast<int>(M), nodes = static_cast<int>(L), step = STEP_WARPS * WARP;
    int most = 0;
    cudaError_t error;
    auto on_chip = [&](auto own) {
        return launch_on_chip<own, SUM_OF_PATHS>(forward_tiles<own>, B, nodes, most, stream, match, links, node_lengths,
                                                 target_lengths, log_prob, alpha, targets, nodes);
    };
    if (const int own = fits_on_chip<SUM_OF_PATHS>(nodes, &most, &error))
        return own == 1 ? on_chip(ONE) : on_chip(MANY<SUM_OF_PATHS>);
    if (error != cudaSuccess) return error;
    const dim3 slices(batch, static_cast<unsigned>(blocks(L, WARP)));
    for (int i = 0; i < targets; ++i) {
        EXLM_LAUNCH(forward_step, slices, dim3(step), 0, stream, match, links, node_lengths, target_lengths, alpha,
                    targets, nodes, i);
    }
    EXLM_LAUNCH(finish_forward, dim3(static_cast<unsigned>(blocks(B, step))), dim3(step), 0, stream, node_lengths,
                target_lengths, alpha, log_prob, static_cast<int>(B), targets, nodes);
    return cudaGetLastError();
}

int exlm_dag_backward_cuda(int64_t B, int64_t M, int64_t L, const float* grad_log_prob, const float* match,
                           const float* links, const int64_t* node_lengths, const int64_t* target_lengths,
                           const float* alpha_, float* grad_match, float* grad_links, float* workspace, void* stream_) {
    if (!sizes_are_good(B, M, L)) return EXLM_DAG_TOO_LARGE;
    if (B == 0 || L == 0) return EXLM_DAG_OK;
    const auto stream = static_cast<cudaStream_t>(stream_);
    const Scaled* const alpha = reinterpret_cast<const Scaled*>(alpha_);
    const unsigned batch = static_cast<unsigned>(B);
    const int targets = static_cast<int>(M), nodes = static_cast<int>(L), step = STEP_WARPS * WARP;
    int most = 0;
    cudaError_t error;
    auto on_chip = [&](auto own) {
        return launch_on_chip<own, POSTERIORS>(backward_tiles<own>, B, nodes, most, stream, grad_log_prob, match, links,
                                               node_lengths, target_lengths, alpha, grad_match, workspace, targets,
                                               nodes);
    };
    if (const int own = fits_on_chip<POSTERIORS>(nodes, &most, &error)) {
        const int code = own == 1 ? on_chip(ONE) : on_chip(MANY<POSTERIORS>);
        if (code != 0) return code;
    } else {
        if (error != cudaSuccess) return error;
        EXLM_LAUNCH(start_backward, dim3(batch), dim3(step), 0, stream, grad_log_prob, match, node_lengths,
                    target_lengths, alpha, grad_match, workspace, targets, nodes);
        const dim3 rows(batch, static_cast<unsigned>(blocks(Ratios(targets, nodes).width, STEP_WARPS)));
        for (int i = targets - 1; i > 0; --i) {
            EXLM_LAUNCH(backward_step, rows, dim3(step), 0, stream, grad_log_prob, match, links, node_lengths,
                        target_lengths, alpha, grad_match, workspace, targets, nodes, i);
        }
    }
    const dim3 tiles(batch, static_cast<unsigned>(blocks(L, WARP)),
                     static_cast<unsigned>(blocks(L, GROUP * STEP_WARPS)));
    EXLM_LAUNCH(edge_gradients, tiles, dim3(step), 0, stream, grad_log_prob, links, node_lengths, target_lengths, alpha,
                grad_links, workspace, targets, nodes);
    return cudaGetLastError();
}
