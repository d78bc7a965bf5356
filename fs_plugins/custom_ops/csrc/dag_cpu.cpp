// The DAG op on the CPU: see dag.h for the recursion and the shapes, dag_cpu_sentence.h for the numerics.
//
// Sentences are shared out among threads; each is worked on by one, so results do not depend on their number.
#include "dag.h"
#include "dag_cpu_sentence.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#ifndef EXLM_SOURCE_HASH
#define EXLM_SOURCE_HASH "unknown"
#endif

// PyTorch's own threads, where its OpenMP runtime is in the process: they wait for work by spinning, so that threads
// beside them would share the processors with them. There is no need to link with it: the symbol is null without it.
#if defined(__linux__) && defined(__GNUC__)
#define EXLM_OPENMP_THREADS 1
extern "C" __attribute__((weak)) void GOMP_parallel(void (*run)(void*), void* data, unsigned threads, unsigned flags);
#endif

namespace {

// Calls run() on `count` threads, one of them this one.
template <typename Run>
void run_on_threads(int count, Run& run) {
    if (count <= 1) return run();
#if EXLM_OPENMP_THREADS
    if (GOMP_parallel != nullptr) {
        return GOMP_parallel([](void* data) { (*static_cast<Run*>(data))(); }, &run, static_cast<unsigned>(count), 0);
    }
#endif
    std::vector<std::thread> threads;
    try {
        for (int t = 1; t < count; ++t) threads.emplace_back([&run] { run(); });
    } catch (const std::system_error&) {
        // fewer threads than asked for: the rest do the work
    }
    run();
    for (auto& thread : threads) thread.join();
}

// Calls work(T*, Band, b, scratch) for every sentence b on up to num_threads threads, with T the dtype's type.
// Exceptions become codes, as they must not cross the C boundary.
template <typename Work>
int for_each_sentence(int dtype, int64_t B, int64_t M, int64_t L, const int64_t* node_lengths,
                      const int64_t* target_lengths, int num_threads, Work work) {
    if (dtype != EXLM_DAG_FLOAT32 && dtype != EXLM_DAG_FLOAT64) return EXLM_DAG_BAD_DTYPE;
    if (B < 0 || M < 0 || L < 0) return EXLM_DAG_BAD_SIZE;
    for (int64_t b = 0; b < B; ++b) {
        if (node_lengths[b] < 0 || node_lengths[b] > L) return EXLM_DAG_BAD_SIZE;
        if (target_lengths[b] < 0 || target_lengths[b] > M) return EXLM_DAG_BAD_SIZE;
    }
    std::atomic<int64_t> next{0};
    std::atomic<bool> failed{false};
    auto run = [&] {
        const FlushDenormals flush;
        static thread_local Scratch scratch;
        try {
            for (int64_t b = next.fetch_add(1); b < B && !failed; b = next.fetch_add(1)) {
                const Band band{node_lengths[b], target_lengths[b]};
                if (dtype == EXLM_DAG_FLOAT32) {
                    work(static_cast<float*>(nullptr), band, b, scratch);
                } else {
                    work(static_cast<double*>(nullptr), band, b, scratch);
                }
            }
        } catch (const std::bad_alloc&) {
            failed = true;
        }
        if (failed || scratch.is_large()) scratch = Scratch();
    };
    run_on_threads(static_cast<int>(std::min<int64_t>(B, num_threads)), run);
    return failed ? EXLM_DAG_NO_MEMORY : EXLM_DAG_OK;
}

}  // namespace

const char* exlm_dag_source_hash(void) { return EXLM_SOURCE_HASH; }

int exlm_dag_forward_cpu(int dtype, int64_t B, int64_t M, int64_t L, const void* match, const void* links,
                         const int64_t* node_lengths, const int64_t* target_lengths, void* log_prob, double* alpha,
                         int num_threads) {
    auto work = [=](auto* type, Band band, int64_t b, Scratch& scratch) {
        using T = std::remove_pointer_t<decltype(type)>;
        forward_sentence(static_cast<const T*>(match) + b * M * L, static_cast<const T*>(links) + b * L * L, band, M, L,
                         static_cast<T*>(log_prob) + b, alpha + b * M * L, scratch);
    };
    return for_each_sentence(dtype, B, M, L, node_lengths, target_lengths, num_threads, work);
}

int exlm_dag_backward_cpu(int dtype, int64_t B, int64_t M, int64_t L, const void* grad_log_prob, const void* match,
                          const void* links, const int64_t* node_lengths, const int64_t* target_lengths,
                          const double* alpha, void* grad_match, void* grad_links, int num_threads) {
    auto work = [=](auto* type, Band band, int64_t b, Scratch& scratch) {
        using T = std::remove_pointer_t<decltype(type)>;
        backward_sentence(static_cast<const T*>(grad_log_prob)[b], static_cast<const T*>(match) + b * M * L,
                          static_cast<const T*>(links) + b * L * L, band, alpha + b * M * L, M, L,
                          static_cast<T*>(grad_match) + b * M * L, static_cast<T*>(grad_links) + b * L * L, scratch);
    };
    return for_each_sentence(dtype, B, M, L, node_lengths, target_lengths, num_threads, work);
}
