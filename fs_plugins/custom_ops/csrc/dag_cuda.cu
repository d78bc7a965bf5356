// The DAG op on NVIDIA GPUs: the C functions of dag.h, which choose between the kernels for sentences that fit on one
// multiprocessor (dag_cuda_sentence.cuh) and those for any size (dag_cuda_steps.cuh).
#include "dag_cuda_edges.cuh"
#include "dag_cuda_sentence.cuh"
#include "dag_cuda_steps.cuh"

#include <type_traits>

#ifndef EXLM_SOURCE_HASH
#define EXLM_SOURCE_HASH "unknown"
#endif

namespace {

using namespace exlm;

constexpr int64_t MOST_NODES = 16352, MOST_TARGETS = 1 << 20;

constexpr int64_t blocks(int64_t work, int64_t each) { return work > 0 ? (work + each - 1) / each : 1; }

bool sizes_are_good(int64_t B, int64_t M, int64_t L) {
    return B >= 0 && B <= INT32_MAX && M >= 0 && M <= MOST_TARGETS && L >= 0 && L <= MOST_NODES;
}

// Tiles of a warp that its registers hold: all, where there is one; else as many as there are registers for.
constexpr std::integral_constant<int, 1> ONE;
template <typename T, Pass PASS>
constexpr int MOST_OWN = sizeof(T) == 8         ? 3
                         : PASS == SUM_OF_PATHS ? 5
                                                : 11;
template <typename T, Pass PASS>
constexpr std::integral_constant<int, MOST_OWN<T, PASS>> MANY;

// The tiles of a warp in registers, of the kernels for sentences of up to L nodes: 1 or MANY. 0 if a block's part of
// the problem does not fit into the shared memory that the current device gives to a block: `most` bytes. Errors are
// handed out, and not left behind for the next caller of cudaGetLastError.
template <typename T, Pass PASS>
int fits_on_chip(int L, int* most, cudaError_t* error) {
    int device = 0;
    *error = cudaGetDevice(&device);
    if (*error == cudaSuccess) *error = cudaDeviceGetAttribute(most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (*error != cudaSuccess) return cudaGetLastError(), 0;
    const TileLayout<T, 1, PASS> one(L);
    if (one.each == 1) return one.bytes() <= *most ? 1 : 0;
    constexpr int OWN = MANY<T, PASS>.value;
    const TileLayout<T, OWN, PASS> many(L);
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
template <typename T, int OWN, Pass PASS, typename... Parameters, typename... Arguments>
int launch_on_chip(void (*kernel)(Parameters...), int64_t B, int L, int most, cudaStream_t stream,
                   Arguments... arguments) {
    const TileLayout<T, OWN, PASS> layout(L);
    const cudaError_t error = allow_shared(kernel, layout.bytes(), most);
    if (error != cudaSuccess) return error;
    EXLM_LAUNCH(kernel, dim3(static_cast<unsigned>(B)), dim3(layout.warps * WARP), layout.bytes(), stream,
                arguments...);
    return cudaGetLastError();
}

template <typename T>
int forward(int64_t B, int64_t M, int64_t L, const void* match, const void* links, const int64_t* node_lengths,
            const int64_t* target_lengths, void* log_prob, void* alpha, cudaStream_t stream) {
    const T *const match_ = static_cast<const T*>(match), *const links_ = static_cast<const T*>(links);
    T* const log_prob_ = static_cast<T*>(log_prob);
    Scaled<T>* const alpha_ = static_cast<Scaled<T>*>(alpha);
    const unsigned batch = static_cast<unsigned>(B);
    const int targets = static_cast<int>(M), nodes = static_cast<int>(L), step = STEP_WARPS * WARP;
    int most = 0;
    cudaError_t error;
    auto on_chip = [&](auto own) {
        return launch_on_chip<T, own, SUM_OF_PATHS>(forward_tiles<T, own>, B, nodes, most, stream, match_, links_,
                                                    node_lengths, target_lengths, log_prob_, alpha_, targets, nodes);
    };
    if (const int own = fits_on_chip<T, SUM_OF_PATHS>(nodes, &most, &error))
        return own == 1 ? on_chip(ONE) : on_chip(MANY<T, SUM_OF_PATHS>);
    if (error != cudaSuccess) return error;
    const auto kernel = forward_step<T>;
    const dim3 slices(batch, static_cast<unsigned>(blocks(L, WARP)));
    for (int i = 0; i < targets; ++i) {
        EXLM_LAUNCH(kernel, slices, dim3(step), 0, stream, match_, links_, node_lengths, target_lengths, alpha_,
                    targets, nodes, i);
    }
    const auto finish = finish_forward<T>;
    EXLM_LAUNCH(finish, dim3(static_cast<unsigned>(blocks(B, step))), dim3(step), 0, stream, node_lengths,
                target_lengths, alpha_, log_prob_, static_cast<int>(B), targets, nodes);
    return cudaGetLastError();
}

template <typename T>
int backward(int64_t B, int64_t M, int64_t L, const void* grad_log_prob, const void* match, const void* links,
             const int64_t* node_lengths, const int64_t* target_lengths, const void* alpha, void* grad_match,
             void* grad_links, void* workspace, cudaStream_t stream) {
    const T *const grad_ = static_cast<const T*>(grad_log_prob), *const match_ = static_cast<const T*>(match);
    const T* const links_ = static_cast<const T*>(links);
    const Scaled<T>* const alpha_ = static_cast<const Scaled<T>*>(alpha);
    T *const grad_match_ = static_cast<T*>(grad_match), *const grad_links_ = static_cast<T*>(grad_links);
    const unsigned batch = static_cast<unsigned>(B);
    const int targets = static_cast<int>(M), nodes = static_cast<int>(L), step = STEP_WARPS * WARP;
    int most = 0;
    cudaError_t error;
    auto on_chip = [&](auto own) {
        return launch_on_chip<T, own, POSTERIORS>(backward_tiles<T, own>, B, nodes, most, stream, grad_, match_, links_,
                                                  node_lengths, target_lengths, alpha_, grad_match_, workspace, targets,
                                                  nodes);
    };
    if (const int own = fits_on_chip<T, POSTERIORS>(nodes, &most, &error)) {
        const int code = own == 1 ? on_chip(ONE) : on_chip(MANY<T, POSTERIORS>);
        if (code != 0) return code;
    } else {
        if (error != cudaSuccess) return error;
        const auto start = start_backward<T>;
        EXLM_LAUNCH(start, dim3(batch), dim3(step), 0, stream, grad_, match_, node_lengths, target_lengths, alpha_,
                    grad_match_, workspace, targets, nodes);
        const auto kernel = backward_step<T>;
        const dim3 rows(batch, static_cast<unsigned>(blocks(Ratios(targets, nodes).width, STEP_WARPS)));
        for (int i = targets - 1; i > 0; --i) {
            EXLM_LAUNCH(kernel, rows, dim3(step), 0, stream, grad_, match_, links_, node_lengths, target_lengths,
                        alpha_, grad_match_, workspace, targets, nodes, i);
        }
    }
    const auto edges = edge_gradients<T>;
    const dim3 tiles(batch, static_cast<unsigned>(blocks(L, WARP)),
                     static_cast<unsigned>(blocks(L, GROUP * STEP_WARPS)));
    EXLM_LAUNCH(edges, tiles, dim3(step), 0, stream, grad_, links_, node_lengths, target_lengths, alpha_, grad_links_,
                workspace, targets, nodes);
    return cudaGetLastError();
}

}  // namespace

const char* exlm_dag_source_hash(void) { return EXLM_SOURCE_HASH; }

const char* exlm_dag_error_string_cuda(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }

int exlm_dag_forward_cuda(int dtype, int64_t B, int64_t M, int64_t L, const void* match, const void* links,
                          const int64_t* node_lengths, const int64_t* target_lengths, void* log_prob, void* alpha,
                          void* stream_) {
    const auto stream = static_cast<cudaStream_t>(stream_);
    if (dtype != EXLM_DAG_FLOAT32 && dtype != EXLM_DAG_FLOAT64) return EXLM_DAG_BAD_DTYPE;
    if (!sizes_are_good(B, M, L)) return EXLM_DAG_TOO_LARGE;
    if (B == 0) return EXLM_DAG_OK;
    const auto run = dtype == EXLM_DAG_FLOAT32 ? forward<float> : forward<double>;
    return run(B, M, L, match, links, node_lengths, target_lengths, log_prob, alpha, stream);
}

int exlm_dag_backward_cuda(int dtype, int64_t B, int64_t M, int64_t L, const void* grad_log_prob, const void* match,
                           const void* links, const int64_t* node_lengths, const int64_t* target_lengths,
                           const void* alpha, void* grad_match, void* grad_links, void* workspace, void* stream_) {
    const auto stream = static_cast<cudaStream_t>(stream_);
    if (dtype != EXLM_DAG_FLOAT32 && dtype != EXLM_DAG_FLOAT64) return EXLM_DAG_BAD_DTYPE;
    if (!sizes_are_good(B, M, L)) return EXLM_DAG_TOO_LARGE;
    if (B == 0 || L == 0) return EXLM_DAG_OK;
    const auto run = dtype == EXLM_DAG_FLOAT32 ? backward<float> : backward<double>;
    return run(B, M, L, grad_log_prob, match, links, node_lengths, target_lengths, alpha, grad_match, grad_links,
               workspace, stream);
}
