// The DAG op on the CPU: see dag.h for the recursion and the shapes.
//
// Numerics. A row of alpha is taken out of the log domain relative to its largest entry, a(v) = exp(alpha(v) - top), so
// that a step is a vector-matrix product S(u) = sum over v < u of a(v) * E(v, u) with E = exp(links), in double. On graphs of trained
// models a row may span more than a double does, mostly because its first nodes are unlikely: the nodes u are therefore cut
// into segments, each with the largest of what precedes it as its top. What underflows in a or E is below 1e-308 and so
// cannot matter where S(u) is ordinary; where S(u) is below TINY, that node's sum is redone exactly in the log domain. The
// backward pass distributes the posterior of each node over its predecessors in proportion to the terms of the same sum: every
// factor is a share of 1, so nothing overflows.
//
// Sentences are shared out among threads; each is worked on by one, so results do not depend on their number.
#include "dag.h"
#include "dag_cpu_loops.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
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

constexpr double NEG_INF = -std::numeric_limits<double>::infinity();
constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();
constexpr double TINY = 1e-250;
const double LOG_TINY = std::log(TINY);
constexpr double LOG_NEGLIGIBLE = -60.0;  // of a term beside the largest of a sum: 1e-26 of it
constexpr double LOG_LEAST = -746.0;      // exp gives 0 below

// The part of the trellis that paths from the first to the last node can pass at target i: nodes first(i) .. last(i).
struct Band {
    int64_t n, m;  // nodes, targets
    int64_t first(int64_t i) const { return i; }
    int64_t last(int64_t i) const { return n - m + i; }
    bool feasible() const { return m >= 1 && n >= m && (m > 1 || n == 1); }
};

// Nodes first .. last of a row that are summed relative to `top`, the largest alpha that precedes one of them.
struct Segment {
    int64_t first, last;
    double top;
};
constexpr double SPAN = 250.0;  // by which the largest alpha before one node of a segment and before another may differ

// Cuts the nodes u0 .. u1 that anything precedes into segments, which it appends, given previous[v0 .. v1]; if there is a NaN, into one
// with that as its top.
void cut(const double* previous, int64_t v0, int64_t v1, int64_t u0, int64_t u1, std::vector<Segment>& segments) {
    const size_t before = segments.size();
    double top = NEG_INF, least = NEG_INF;
    int64_t v = v0;
    for (int64_t u = u0; u <= u1; ++u) {
        for (; v <= v1 && v < u; ++v) {
            if (previous[v] != previous[v]) {
                segments.resize(before);
                return segments.push_back({u0, u1, NOT_A_NUMBER});
            }
            top = std::max(top, previous[v]);
        }
        if (top == NEG_INF) continue;
        if (segments.size() == before || top > least + SPAN) {
            least = top;
            segments.push_back({u, u, top});
        }
        segments.back().last = u;
        segments.back().top = top;
    }
}

// log of the sum over v in first .. last, v < u, of exp(previous[v] + links[v][u]), all in the log domain.
template <typename T>
double exact_log_sum(const double* previous, const T* links, int64_t L, int64_t first, int64_t last, int64_t u) {
    double top = NEG_INF;
    last = std::min(last, u - 1);
    for (int64_t v = first; v <= last; ++v) {
        top = std::max(top, previous[v] + static_cast<double>(links[v * L + u]));
    }
    if (top == NEG_INF) return NEG_INF;
    double sum = 0.0;
    for (int64_t v = first; v <= last; ++v) {
        const double below = previous[v] + static_cast<double>(links[v * L + u]) - top;
        if (!(below < LOG_NEGLIGIBLE)) sum += std::exp(below);
    }
    return top + std::log(sum);
}

// A thread's working memory, kept from sentence to sentence. The matrices [L][L] come with the first sentence that
// needs them.
struct Scratch {
    explicit Scratch(int64_t L) : weights(L), sums(L), shares(L) {}
    std::vector<double> weights, sums, shares;
    std::vector<double> edges, flow, exact_flow;
    std::vector<Segment> segments;                // of a target; in the backward pass, of all
    std::vector<int64_t> first_segment;           // of each target
    std::vector<double> weight_rows, ratio_rows;  // of each segment
    std::vector<int64_t> strip_rows, strip_start;
    std::vector<int32_t> from;
};

template <typename T>
void forward_sentence(const T* match, const T* links, Band band, int64_t M, int64_t L, T* log_prob, double* alpha,
                      Scratch& scratch) {
    for (int64_t j = 0; j < M * L; ++j) alpha[j] = NEG_INF;
    if (!band.feasible()) {
        *log_prob = static_cast<T>(NEG_INF);
        return;
    }
    scratch.edges.resize(L * L);
    double* edges = scratch.edges.data();
    exp_edges(links, band.n, L, edges);
    double* weights = scratch.weights.data();
    double* sums = scratch.sums.data();
    alpha[0] = match[0];
    for (int64_t i = 1; i < band.m; ++i) {
        const double* previous = alpha + (i - 1) * L;
        double* current = alpha + i * L;
        const int64_t v0 = i == 1 ? 0 : band.first(i - 1), v1 = i == 1 ? 0 : band.last(i - 1);
        scratch.segments.clear();
        cut(previous, v0, v1, band.first(i), band.last(i), scratch.segments);
        for (const Segment& segment : scratch.segments) {
            const int64_t last = std::min(v1, segment.last - 1);
            exp_row(previous, segment.top, 1.0, v0, last, weights);
            propagate(weights, edges, L, v0, last, segment.first, segment.last, sums);
            const bool any_tiny = log_row(segment.top, TINY, segment.first, segment.last, sums, current);
            for (int64_t u = segment.first; u <= segment.last; ++u) {
                if (any_tiny && sums[u] < TINY) current[u] = exact_log_sum(previous, links, L, v0, v1, u);
                current[u] = current[u] == NEG_INF ? NEG_INF : current[u] + static_cast<double>(match[i * L + u]);
            }
        }
    }
    *log_prob = static_cast<T>(alpha[(band.m - 1) * L + band.n - 1]);
}

// The backward step of target i for the nodes u whose scaled sum is too small: adds posterior[u] times the share of each
// predecessor v to shares[v] and to flow[v][u].
template <typename T>
void share_exactly(const double* previous, const T* links, Band band, int64_t i, int64_t L, const double* posterior,
                   const double* log_sums, double* shares, std::vector<double>& flow) {
    if (flow.empty()) flow.assign(L * L, 0.0);
    const int64_t v0 = i == 1 ? 0 : band.first(i - 1), v1 = i == 1 ? 0 : band.last(i - 1);
    for (int64_t u = band.first(i); u <= band.last(i); ++u) {
        if (posterior[u] == 0.0 || log_sums[u] >= LOG_TINY) continue;
        const double log_sum = exact_log_sum(previous, links, L, v0, v1, u);
        if (log_sum == NEG_INF) continue;
        for (int64_t v = v0; v <= std::min(v1, u - 1); ++v) {
            const double below = previous[v] + static_cast<double>(links[v * L + u]) - log_sum;
            if (below < LOG_LEAST) continue;
            const double share = posterior[u] * std::exp(below);
            shares[v] += share;
            flow[v * L + u] += share;
        }
    }
}

template <typename T>
void backward_sentence(T grad, const T* match, const T* links, Band band, const double* alpha, int64_t M, int64_t L,
                       T* grad_match, T* grad_links, Scratch& scratch) {
    for (int64_t j = 0; j < M * L; ++j) grad_match[j] = 0;
    for (int64_t j = 0; j < L * L; ++j) grad_links[j] = 0;
    if (!band.feasible() || grad == 0) return;
    const double log_prob = alpha[(band.m - 1) * L + band.n - 1];
    if (log_prob == NEG_INF) return;
    if (log_prob != log_prob) {
        for (int64_t i = 0; i < band.m; ++i) {
            for (int64_t u = 0; u < band.n; ++u) grad_match[i * L + u] = static_cast<T>(NOT_A_NUMBER);
        }
        for (int64_t v = 0; v < band.n; ++v) {
            for (int64_t u = v + 1; u < band.n; ++u) grad_links[v * L + u] = static_cast<T>(NOT_A_NUMBER);
        }
        return;
    }
    scratch.edges.resize(L * L);
    double* edges = scratch.edges.data();
    exp_edges(links, band.n, L, edges);
    std::vector<Segment>& segments = scratch.segments;
    std::vector<int64_t>& first_segment = scratch.first_segment;
    segments.clear();
    first_segment.assign(2, 0);
    for (int64_t i = 1; i < band.m; ++i) {
        const int64_t v1 = i == 1 ? 0 : band.last(i - 1);
        cut(alpha + (i - 1) * L, band.first(i - 1), v1, band.first(i), band.last(i), segments);
        first_segment.push_back(static_cast<int64_t>(segments.size()));
    }
    scratch.weight_rows.assign(segments.size() * L, 0.0);
    scratch.ratio_rows.assign(segments.size() * L, 0.0);
    scratch.exact_flow.clear();
    double* posterior = scratch.sums.data();  // of (i, u), times grad
    double* shares = scratch.shares.data();
    double* log_sums = scratch.weights.data();

    for (int64_t u = 0; u < band.n; ++u) posterior[u] = 0.0;
    posterior[band.n - 1] = grad;
    for (int64_t i = band.m - 1; i >= 1; --i) {
        const double* previous = alpha + (i - 1) * L;
        const double* current = alpha + i * L;
        const int64_t v0 = i == 1 ? 0 : band.first(i - 1), v1 = i == 1 ? 0 : band.last(i - 1);
        const int64_t u0 = band.first(i), u1 = band.last(i);
        for (int64_t u = u0; u <= u1; ++u) grad_match[i * L + u] = static_cast<T>(posterior[u]);
        for (int64_t v = v0; v <= v1; ++v) shares[v] = 0.0;
        bool exact = false;
        for (int64_t r = first_segment[i]; r < first_segment[i + 1]; ++r) {
            const Segment& segment = segments[r];
            double* weights = scratch.weight_rows.data() + r * L;
            double* ratios = scratch.ratio_rows.data() + r * L;
            for (int64_t u = segment.first; u <= segment.last; ++u) {
                log_sums[u] = current[u] - static_cast<double>(match[i * L + u]) - segment.top;
            }
            exp_row(log_sums, 0.0, -1.0, segment.first, segment.last, ratios);
            for (int64_t u = segment.first; u <= segment.last; ++u) {
                const bool ordinary = posterior[u] != 0.0 && log_sums[u] >= LOG_TINY;
                exact |= posterior[u] != 0.0 && !ordinary;
                ratios[u] = ordinary ? posterior[u] * ratios[u] : 0.0;
            }
            const int64_t last = std::min(v1, segment.last - 1);
            exp_row(previous, segment.top, 1.0, v0, last, weights);
            collect(weights, edges, ratios, L, v0, last, segment.first, segment.last, shares);
        }
        if (exact) share_exactly(previous, links, band, i, L, posterior, log_sums, shares, scratch.exact_flow);
        for (int64_t u = u0; u <= u1; ++u) posterior[u] = 0.0;
        for (int64_t v = v0; v <= v1; ++v) posterior[v] = shares[v];
    }
    grad_match[0] = static_cast<T>(posterior[0]);
    scratch.flow.resize(L * L);
    double* flow = scratch.flow.data();
    for (int64_t u0 = 0; u0 < band.n; u0 += STRIP) {
        scratch.strip_rows.clear();
        scratch.strip_start.assign(1, 0);
        for (int64_t i = 0; i < band.m; ++i) {
            for (int64_t r = first_segment[i]; r < first_segment[i + 1]; ++r) {
                if (segments[r].first < u0 + STRIP && segments[r].last >= u0) scratch.strip_rows.push_back(r);
            }
            scratch.strip_start.push_back(static_cast<int64_t>(scratch.strip_rows.size()));
        }
        accumulate_flow(scratch.weight_rows.data(), scratch.ratio_rows.data(), edges, scratch.strip_rows.data(),
                        scratch.strip_start.data(), band.m, band.n, L, u0, flow);
    }
    for (int64_t v = 0; v < band.n; ++v) {
        for (int64_t u = v + 1; u < band.n; ++u) {
            if (!scratch.exact_flow.empty()) flow[v * L + u] += scratch.exact_flow[v * L + u];
            grad_links[v * L + u] = static_cast<T>(flow[v * L + u]);
        }
    }
}

template <typename T>
void align_sentence(const T* match, const T* links, Band band, int64_t L, int64_t* alignment, Scratch& scratch) {
    for (int64_t u = 0; u < L; ++u) alignment[u] = -1;
    if (!band.feasible()) return;
    scratch.from.assign(band.m * band.n, -1);
    double* previous = scratch.weights.data();
    double* current = scratch.sums.data();
    for (int64_t u = 0; u < band.n; ++u) previous[u] = NEG_INF;
    previous[0] = match[0];
    for (int64_t i = 1; i < band.m; ++i) {
        for (int64_t u = 0; u < band.n; ++u) current[u] = NEG_INF;
        int32_t* back = scratch.from.data() + i * band.n;
        const int64_t v0 = i == 1 ? 0 : band.first(i - 1), v1 = i == 1 ? 0 : band.last(i - 1);
        for (int64_t v = v0; v <= v1; ++v) {
            if (previous[v] == NEG_INF) continue;
            for (int64_t u = std::max(band.first(i), v + 1); u <= band.last(i); ++u) {
                const double candidate = previous[v] + static_cast<double>(links[v * L + u]);
                if (candidate > current[u]) {  // ties go to the earliest predecessor
                    current[u] = candidate;
                    back[u] = static_cast<int32_t>(v);
                }
            }
        }
        for (int64_t u = band.first(i); u <= band.last(i); ++u) current[u] += static_cast<double>(match[i * L + u]);
        std::swap(previous, current);
    }
    if (!(previous[band.n - 1] > NEG_INF)) return;
    int64_t u = band.n - 1;
    for (int64_t i = band.m - 1; i >= 0; --i) {
        alignment[u] = i;
        u = i > 0 ? scratch.from[i * band.n + u] : u;
    }
}

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
        try {
            Scratch scratch(L);
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
    };
    run_on_threads(static_cast<int>(std::min<int64_t>(B, num_threads)), run);
    return failed ? EXLM_DAG_NO_MEMORY : EXLM_DAG_OK;
}

}  // namespace

int exlm_dag_abi_version(void) { return EXLM_DAG_ABI_VERSION; }
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

int exlm_dag_best_alignment_cpu(int dtype, int64_t B, int64_t M, int64_t L, const void* match, const void* links,
                                const int64_t* node_lengths, const int64_t* target_lengths, int64_t* alignment,
                                int num_threads) {
    auto work = [=](auto* type, Band band, int64_t b, Scratch& scratch) {
        using T = std::remove_pointer_t<decltype(type)>;
        align_sentence(static_cast<const T*>(match) + b * M * L, static_cast<const T*>(links) + b * L * L, band, L,
                       alignment + b * L, scratch);
    };
    return for_each_sentence(dtype, B, M, L, node_lengths, target_lengths, num_threads, work);
}
