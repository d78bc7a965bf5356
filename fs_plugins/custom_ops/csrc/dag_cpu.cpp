// The DAG op on the CPU: see dag.h for the recursion and the shapes.
//
// A step is a product of a vector and a matrix in double, out of the log domain: S(u) = sum over v < u of a(v) E(v, u)
// with a(v) = exp(alpha(v) - the row's largest) and E = exp(links - the sentence's largest), both at most 1. Factors
// below e^CUT are taken as 0, so that no product is denormal, and a sum below e^LEAST, beside which they could matter,
// is computed again in the log domain. The backward pass divides the posterior of each node among its predecessors in
// proportion to the terms of the same sum. Sentences are shared out among threads, each of which does whole ones, so
// results do not depend on their number.
#include "dag.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <future>
#include <limits>
#include <system_error>
#include <vector>

namespace {

constexpr double NEG_INF = -std::numeric_limits<double>::infinity();
constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();
constexpr double CUT = -340.0, LEAST = -280.0;  // e^-60 is 1e-26
constexpr double NEGLIGIBLE = 1e-100;           // a posterior that counts as 0

double exp_or_zero(double x) { return x < CUT ? 0.0 : std::exp(x); }

// The part of the trellis that paths from the first to the last node can pass at target i: nodes first(i) .. last(i).
struct Band {
    int64_t n, m;  // nodes, targets
    int64_t first(int64_t i) const { return i == m - 1 ? n - 1 : i; }
    int64_t last(int64_t i) const { return i == 0 ? 0 : n - m + i; }
    bool feasible() const { return m >= 1 && n >= m && (m > 1 || n == 1); }
};

double largest(const double* values, int64_t first, int64_t last) {  // but for NaN
    double top = NEG_INF;
    for (int64_t v = first; v <= last; ++v) top = std::max(top, values[v]);
    return top;
}

// One sentence; the pointers are to its part of the arrays.
template <typename T>
struct Sentence {
    const T* match;
    const T* links;
    double* alpha;
    int64_t M, L;
    Band band;
    std::vector<double> edges;  // [n][n] e^(links - scale) for v < u
    double scale = NEG_INF;

    void compute_edges() {
        edges.resize(band.n * band.n);
        for (int64_t v = 0; v < band.n; ++v) {
            for (int64_t u = v + 1; u < band.n; ++u) scale = std::max(scale, static_cast<double>(links[v * L + u]));
        }
        if (scale == NEG_INF) scale = 0.0;
        for (int64_t v = 0; v < band.n; ++v) {
            for (int64_t u = v + 1; u < band.n; ++u) edges[v * band.n + u] = exp_or_zero(links[v * L + u] - scale);
        }
    }

    // weights[v] = a(v) for the nodes of row i; returns the row's largest alpha.
    double weigh(int64_t i, double* weights) const {
        const double* row = alpha + i * L;
        const double top = largest(row, band.first(i), band.last(i));
        for (int64_t v = band.first(i); v <= band.last(i); ++v) {
            weights[v] = row[v] == NEG_INF ? 0.0 : exp_or_zero(row[v] - (top == NEG_INF ? 0.0 : top));
        }
        return top;
    }

    // log of f(i - 1, v) e^links(v, u)
    double log_term(int64_t i, int64_t v, int64_t u) const {
        const double before = alpha[(i - 1) * L + v];
        return before == NEG_INF ? NEG_INF : before + links[v * L + u];  // a dead node hides a NaN of its edges
    }

    // log of the sum of these terms over v
    double exact_log_sum(int64_t i, int64_t u) const {
        const int64_t first = band.first(i - 1), last = std::min(band.last(i - 1), u - 1);
        double top = NEG_INF, sum = 0.0;
        for (int64_t v = first; v <= last; ++v) top = std::max(top, log_term(i, v, u));
        if (top == NEG_INF) return NEG_INF;
        for (int64_t v = first; v <= last; ++v) sum += exp_or_zero(log_term(i, v, u) - top);
        return top + std::log(sum);
    }

    void forward(T* log_prob) {
        std::fill(alpha, alpha + M * L, NEG_INF);
        *log_prob = static_cast<T>(NEG_INF);
        if (!band.feasible()) return;
        compute_edges();
        std::vector<double> weights(band.n), sums(band.n);
        alpha[0] = match[0];
        for (int64_t i = 1; i < band.m; ++i) {
            const double top = weigh(i - 1, weights.data());
            std::fill(sums.begin(), sums.end(), 0.0);
            for (int64_t v = band.first(i - 1); v <= band.last(i - 1); ++v) {
                if (alpha[(i - 1) * L + v] == NEG_INF) continue;
                const double* row = &edges[v * band.n];
                for (int64_t u = std::max(v + 1, band.first(i)); u <= band.last(i); ++u) sums[u] += weights[v] * row[u];
            }
            for (int64_t u = band.first(i); u <= band.last(i); ++u) {
                const double log = std::log(sums[u]);
                const double log_sum = log < LEAST ? exact_log_sum(i, u) : log + top + scale;
                alpha[i * L + u] = log_sum == NEG_INF ? NEG_INF : log_sum + match[i * L + u];
            }
        }
        *log_prob = static_cast<T>(alpha[(band.m - 1) * L + band.n - 1]);
    }

    // Adds to shares[v], and to flow[v][u], what node u passes of its posterior to its predecessors v, in the log domain.
    void share_exactly(int64_t i, int64_t u, double posterior, double* shares, std::vector<double>& flow) const {
        flow.resize(band.n * band.n);
        const double log_sum = alpha[i * L + u] - match[i * L + u];
        for (int64_t v = band.first(i - 1); v <= std::min(band.last(i - 1), u - 1); ++v) {
            const double share = posterior * exp_or_zero(log_term(i, v, u) - log_sum);
            shares[v] += share;
            flow[v * band.n + u] += share;
        }
    }

    void backward(T grad, T* grad_match, T* grad_links) {
        std::fill(grad_match, grad_match + M * L, T(0));
        std::fill(grad_links, grad_links + L * L, T(0));
        const int64_t n = band.n, m = band.m;
        if (!band.feasible() || grad == 0) return;
        const double log_prob = alpha[(m - 1) * L + n - 1];
        if (log_prob == NEG_INF) return;
        if (std::isnan(log_prob)) {
            for (int64_t i = 0; i < m; ++i) std::fill(grad_match + i * L, grad_match + i * L + n, T(NOT_A_NUMBER));
            for (int64_t v = 0; v < n; ++v) std::fill(grad_links + v * L + v + 1, grad_links + v * L + n, T(NOT_A_NUMBER));
            return;
        }
        compute_edges();
        // Rows i of weights and ratios: a(v) of target i - 1, and the posteriors of target i over S(u).
        std::vector<double> weights(m * n), ratios(m * n), posterior(n), shares(n), exact_flow;
        posterior[n - 1] = 1.0;
        for (int64_t i = m - 1; i >= 1; --i) {
            double *weight = &weights[i * n], *ratio = &ratios[i * n];
            const double top = weigh(i - 1, weight);
            std::fill(shares.begin(), shares.end(), 0.0);
            for (int64_t u = band.first(i); u <= band.last(i); ++u) {
                grad_match[i * L + u] = static_cast<T>(grad * posterior[u]);
                if (posterior[u] < NEGLIGIBLE) continue;
                const double log_sum = alpha[i * L + u] - match[i * L + u] - top - scale;
                if (log_sum < LEAST) {
                    share_exactly(i, u, posterior[u], shares.data(), exact_flow);
                } else {
                    ratio[u] = posterior[u] * std::exp(-log_sum);
                }
            }
            for (int64_t v = band.first(i - 1); v <= band.last(i - 1); ++v) {
                if (weight[v] == 0.0) continue;
                const double* row = &edges[v * n];
                double sums[4] = {};  // of which the compiler makes vectors
                int64_t u = std::max(v + 1, band.first(i));
                for (; u + 3 <= band.last(i); u += 4) {
                    for (int j = 0; j < 4; ++j) sums[j] += row[u + j] * ratio[u + j];
                }
                for (; u <= band.last(i); ++u) sums[0] += row[u] * ratio[u];
                shares[v] += weight[v] * (sums[0] + sums[1] + sums[2] + sums[3]);
            }
            std::swap(posterior, shares);
        }
        grad_match[0] = static_cast<T>(grad * posterior[0]);
        std::vector<double>& flow = shares;  // of the edges of node v
        for (int64_t v = 0; v < n; ++v) {
            std::fill(flow.begin(), flow.end(), 0.0);
            for (int64_t i = std::max<int64_t>(1, v - (n - m) + 1); i <= std::min(m - 1, v + 1); ++i) {
                const double weight = weights[i * n + v];
                if (weight == 0.0) continue;
                const double* ratio = &ratios[i * n];
                for (int64_t u = std::max(v + 1, band.first(i)); u <= band.last(i); ++u) flow[u] += weight * ratio[u];
            }
            for (int64_t u = v + 1; u < n; ++u) {
                double posterior_of_edge = flow[u] == 0.0 ? 0.0 : flow[u] * edges[v * n + u];
                if (!exact_flow.empty()) posterior_of_edge += exact_flow[v * n + u];
                grad_links[v * L + u] = static_cast<T>(grad * posterior_of_edge);
            }
        }
    }
};

// Calls work(sentence, b) for every sentence b on up to num_threads threads. Exceptions become codes, as they must not
// cross the C boundary.
template <typename T, typename Work>
int for_each_sentence(int64_t B, int64_t M, int64_t L, const void* match, const void* links,
                      const int64_t* node_lengths, const int64_t* target_lengths, double* alpha, int num_threads,
                      Work work) {
    if (B < 0 || M < 0 || L < 0) return EXLM_DAG_BAD_SIZE;
    for (int64_t b = 0; b < B; ++b) {
        if (node_lengths[b] < 0 || node_lengths[b] > L) return EXLM_DAG_BAD_SIZE;
        if (target_lengths[b] < 0 || target_lengths[b] > M) return EXLM_DAG_BAD_SIZE;
    }
    std::atomic<int64_t> next{0};
    auto run = [&] {
        for (int64_t b = next++; b < B; b = next++) {
            Sentence<T> sentence{static_cast<const T*>(match) + b * M * L, static_cast<const T*>(links) + b * L * L,
                                 alpha + b * M * L, M, L, {node_lengths[b], target_lengths[b]}, {}};
            work(sentence, b);
        }
    };
    try {
        std::vector<std::future<void>> others;
        for (int64_t t = 1; t < std::min<int64_t>(B, num_threads); ++t) {
            try {
                others.push_back(std::async(std::launch::async, run));
            } catch (const std::system_error&) {
                break;  // no more threads can be started: those that run do the rest
            }
        }
        run();
        for (auto& other : others) other.get();
    } catch (const std::exception&) {
        return EXLM_DAG_NO_MEMORY;
    }
    return EXLM_DAG_OK;
}

template <typename T>
int forward(int64_t B, int64_t M, int64_t L, const void* match, const void* links, const int64_t* node_lengths,
            const int64_t* target_lengths, void* log_prob, double* alpha, int num_threads) {
    auto work = [=](Sentence<T>& sentence, int64_t b) { sentence.forward(static_cast<T*>(log_prob) + b); };
    return for_each_sentence<T>(B, M, L, match, links, node_lengths, target_lengths, alpha, num_threads, work);
}

template <typename T>
int backward(int64_t B, int64_t M, int64_t L, const void* grad, const void* match, const void* links,
             const int64_t* node_lengths, const int64_t* target_lengths, const double* alpha, void* grad_match,
             void* grad_links, int num_threads) {
    auto work = [=](Sentence<T>& sentence, int64_t b) {
        sentence.backward(static_cast<const T*>(grad)[b], static_cast<T*>(grad_match) + b * M * L,
                          static_cast<T*>(grad_links) + b * L * L);
    };
    return for_each_sentence<T>(B, M, L, match, links, node_lengths, target_lengths, const_cast<double*>(alpha),
                                num_threads, work);
}

}  // namespace

int exlm_dag_version(void) { return EXLM_DAG_VERSION; }

int exlm_dag_forward_cpu(int dtype, int64_t B, int64_t M, int64_t L, const void* match, const void* links,
                         const int64_t* node_lengths, const int64_t* target_lengths, void* log_prob, double* alpha,
                         int num_threads) {
    if (dtype != EXLM_DAG_FLOAT32 && dtype != EXLM_DAG_FLOAT64) return EXLM_DAG_BAD_DTYPE;
    return (dtype == EXLM_DAG_FLOAT32 ? forward<float> : forward<double>)(
        B, M, L, match, links, node_lengths, target_lengths, log_prob, alpha, num_threads);
}

int exlm_dag_backward_cpu(int dtype, int64_t B, int64_t M, int64_t L, const void* grad_log_prob, const void* match,
                          const void* links, const int64_t* node_lengths, const int64_t* target_lengths,
                          const double* alpha, void* grad_match, void* grad_links, int num_threads) {
    if (dtype != EXLM_DAG_FLOAT32 && dtype != EXLM_DAG_FLOAT64) return EXLM_DAG_BAD_DTYPE;
    return (dtype == EXLM_DAG_FLOAT32 ? backward<float> : backward<double>)(
        B, M, L, grad_log_prob, match, links, node_lengths, target_lengths, alpha, grad_match, grad_links, num_threads);
}
