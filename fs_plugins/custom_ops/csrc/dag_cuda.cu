// The DAG op on NVIDIA GPUs: the C functions of dag.h, which choose between the kernels for sentences that fit on one
// multiprocessor (dag_cuda_sentence.cuh) and those for any size (dag_cuda_steps.cuh).
#include "dag_cuda_sentence.cuh"
#include "dag_cuda_steps.cuh"

#ifndef EXLM_SOURCE_HASH
#define EXLM_SOURCE_HASH "unknown"
#endif

namespace {

using namespace exlm;

constexpr int64_t MOST_NODES = 16352, MOST_TARGETS = 1 << 20;

constexpr int64_t blocks(int64_t work, int64_t each) { return work > 0 ? (work + each - 1) / each : 1; }

// Blocks of finish_backward for a sentence: a warp for EDGE_ROWS<T> x 32 edges.
template <typename T>
constexpr unsigned edge_blocks(int64_t L) {
    return static_cast<unsigned>(blocks(blocks(L, EDGE_ROWS<T>) * blocks(L, WARP), STEP_WARPS));
}
static_assert(edge_blocks<float>(MOST_NODES) <= 65535 && edge_blocks<double>(MOST_NODES) <= 65535,
              "a grid has 65,535 rows of blocks at most");

bool sizes_are_good(int64_t B, int64_t M, int64_t L) {
    return B >= 0 && B <= INT32_MAX && M >= 0 && M <= MOST_TARGETS && L >= 0 && L <= MOST_NODES;
}

// Whether a block's part of the problem fits into the shared memory that the current device gives to a block: `most`
// bytes. Errors are handed out, and not left behind for the next caller of cudaGetLastError.
template <typename T>
bool fits_on_chip(int L, int* most, cudaError_t* error) {
    int device = 0;
    *error = cudaGetDevice(&device);
    if (*error == cudaSuccess) *error = cudaDeviceGetAttribute(most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (*error != cudaSuccess) return cudaGetLastError(), false;
    const TileLayout<T> layout(L);
    return layout.slices <= MAX_WARPS && layout.bytes() <= *most;
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

template <typename T, Pass PASS>
int forward(int64_t B, int64_t M, int64_t L, const void* match, const void* links, const int64_t* node_lengths,
            const int64_t* target_lengths, T* log_prob, T* alpha, int32_t* from, int64_t* alignment,
            cudaStream_t stream) {
    const T *const match_ = static_cast<const T*>(match), *const links_ = static_cast<const T*>(links);
    const unsigned batch = static_cast<unsigned>(B);
    const int targets = static_cast<int>(M), nodes = static_cast<int>(L), step = STEP_WARPS * WARP;
    int most = 0;
    cudaError_t error;
    if (fits_on_chip<T>(nodes, &most, &error)) {
        const TileLayout<T> layout(nodes);
        const auto kernel = forward_tiles<T, PASS>;
        if ((error = allow_shared(kernel, layout.bytes(), most)) != cudaSuccess) return error;
        EXLM_LAUNCH(kernel, dim3(batch), dim3(layout.warps * WARP), layout.bytes(), stream, match_, links_,
                    node_lengths, target_lengths, log_prob, alpha, from, alignment, targets, nodes);
        return cudaGetLastError();
    }
    if (error != cudaSuccess) return error;
    const auto kernel = PASS == BEST_PATH ? forward_step<T, RunningBest> : forward_step<T, RunningSum>;
    const dim3 slices(batch, static_cast<unsigned>(blocks(L, WARP)));
    for (int i = 0; i < targets; ++i) {
        EXLM_LAUNCH(kernel, slices, dim3(step), 0, stream, match_, links_, node_lengths, target_lengths, alpha, from,
                    targets, nodes, i);
    }
    if (PASS == BEST_PATH) {
        const auto finish = finish_alignment<T>;
        EXLM_LAUNCH(finish, dim3(batch), dim3(step), 0, stream, node_lengths, target_lengths, alpha, from, alignment,
                    targets, nodes);
    } else {
        const auto finish = finish_forward<T>;
        EXLM_LAUNCH(finish, dim3(batch), dim3(step), 0, stream, node_lengths, target_lengths, alpha, log_prob, targets,
                    nodes);
    }
    return cudaGetLastError();
}

template <typename T>
int backward(int64_t B, int64_t M, int64_t L, const void* grad_log_prob, const void* match, const void* links,
             const int64_t* node_lengths, const int64_t* target_lengths, const void* alpha, void* grad_match,
             void* grad_links, void* workspace, cudaStream_t stream) {
    const T *const grad_ = static_cast<const T*>(grad_log_prob), *const match_ = static_cast<const T*>(match);
    const T *const links_ = static_cast<const T*>(links), *const alpha_ = static_cast<const T*>(alpha);
    T *const grad_match_ = static_cast<T*>(grad_match), *const grad_links_ = static_cast<T*>(grad_links);
    const unsigned batch = static_cast<unsigned>(B);
    const int targets = static_cast<int>(M), nodes = static_cast<int>(L), step = STEP_WARPS * WARP;
    const TileLayout<T> layout(nodes);
    int most = 0;
    cudaError_t error;
    if (fits_on_chip<T>(nodes, &most, &error)) {
        // The edges' gradients in the same launch if they are little work, else in one over all multiprocessors.
        const bool fused = layout.OWN_IN_REGISTERS && layout.tiles <= layout.warps;
        const auto kernel = backward_tiles<T>;
        if ((error = allow_shared(kernel, layout.bytes(), most)) != cudaSuccess) return error;
        EXLM_LAUNCH(kernel, dim3(batch), dim3(layout.warps * WARP), layout.bytes(), stream, grad_, match_, links_,
                    node_lengths, target_lengths, alpha_, grad_match_, grad_links_, workspace, targets, nodes, fused);
        if (fused) return cudaGetLastError();
    } else {
        if (error != cudaSuccess) return error;
        const auto start = start_backward<T>;
        EXLM_LAUNCH(start, dim3(batch), dim3(step), 0, stream, grad_, match_, links_, node_lengths, target_lengths,
                    alpha_, grad_match_, workspace, targets, nodes);
        const auto kernel = backward_step<T>;
        const dim3 rows(batch, static_cast<unsigned>(blocks(layout.slices * WARP, STEP_WARPS)));
        for (int i = targets - 1; i > 0; --i) {
            EXLM_LAUNCH(kernel, rows, dim3(step), 0, stream, grad_,
                        match_, links_, node_lengths, target_lengths, alpha_, grad_match_, workspace, targets, nodes,
                        i);
        }
    }
    const auto finish = finish_backward<T>;
    EXLM_LAUNCH(finish, dim3(batch, edge_blocks<T>(L)), dim3(step), 0, stream, grad_, links_,
                node_lengths, target_lengths, alpha_, grad_links_, workspace, targets, nodes);
    return cudaGetLastError();
}

template <typename T>
int64_t workspace_bytes(int pass, int64_t B, int64_t M, int64_t L) {
    if (pass == EXLM_DAG_PASS_BACKWARD) return B * Rows<T>::size(static_cast<int>(M), static_cast<int>(L)) * sizeof(T);
    if (pass == EXLM_DAG_PASS_ALIGNMENT) return B * M * L * static_cast<int64_t>(sizeof(T) + sizeof(int32_t));
    return 0;
}

template <typename T>
int align(int64_t B, int64_t M, int64_t L, const void* match, const void* links, const int64_t* node_lengths,
          const int64_t* target_lengths, int64_t* alignment, void* workspace, cudaStream_t stream) {
    T* const scores = static_cast<T*>(workspace);
    int32_t* const from = reinterpret_cast<int32_t*>(scores + B * M * L);
    return forward<T, BEST_PATH>(B, M, L, match, links, node_lengths, target_lengths, nullptr, scores, from, alignment,
                                 stream);
}

}  // namespace

int exlm_dag_abi_version(void) { return EXLM_DAG_ABI_VERSION; }
const char* exlm_dag_source_hash(void) { return EXLM_SOURCE_HASH; }

const char* exlm_dag_error_string_cuda(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }

int64_t exlm_dag_workspace_cuda(int pass, int dtype, int64_t B, int64_t M, int64_t L) {
    if (!sizes_are_good(B, M, L)) return 0;
    return dtype == EXLM_DAG_FLOAT64 ? workspace_bytes<double>(pass, B, M, L) : workspace_bytes<float>(pass, B, M, L);
}

int exlm_dag_forward_cuda(int dtype, int64_t B, int64_t M, int64_t L, const void* match, const void* links,
                          const int64_t* node_lengths, const int64_t* target_lengths, void* log_prob, void* alpha,
                          void*, void* stream_) {
    const auto stream = static_cast<cudaStream_t>(stream_);
    if (dtype != EXLM_DAG_FLOAT32 && dtype != EXLM_DAG_FLOAT64) return EXLM_DAG_BAD_DTYPE;
    if (!sizes_are_good(B, M, L)) return EXLM_DAG_TOO_LARGE;
    if (B == 0) return EXLM_DAG_OK;
    if (dtype == EXLM_DAG_FLOAT32) {
        return forward<float, SUM_OF_PATHS>(B, M, L, match, links, node_lengths, target_lengths,
                                            static_cast<float*>(log_prob), static_cast<float*>(alpha), nullptr, nullptr,
                                            stream);
    }
    return forward<double, SUM_OF_PATHS>(B, M, L, match, links, node_lengths, target_lengths,
                                         static_cast<double*>(log_prob), static_cast<double*>(alpha), nullptr, nullptr,
                                         stream);
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

int exlm_dag_best_alignment_cuda(int dtype, int64_t B, int64_t M, int64_t L, const void* match, const void* links,
                                 const int64_t* node_lengths, const int64_t* target_lengths, int64_t* alignment,
                                 void* workspace, void* stream_) {
    const auto stream = static_cast<cudaStream_t>(stream_);
    if (dtype != EXLM_DAG_FLOAT32 && dtype != EXLM_DAG_FLOAT64) return EXLM_DAG_BAD_DTYPE;
    if (!sizes_are_good(B, M, L)) return EXLM_DAG_TOO_LARGE;
    if (B == 0 || L == 0) return EXLM_DAG_OK;
    const auto run = dtype == EXLM_DAG_FLOAT32 ? align<float> : align<double>;
    return run(B, M, L, match, links, node_lengths, target_lengths, alignment, workspace, stream);
}
