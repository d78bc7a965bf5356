// One sentence on the CPU: the forward pass and the backward pass.
//
// Numerics. A row of alpha is taken out of the log domain relative to its largest entry, a(v) = exp(alpha(v) - top), so
// that a step is a vector-matrix product S(u) = sum over v < u of a(v) * E(v, u) with E = exp(links), in double. On
// graphs of trained models a row may span more than a double does, mostly because its first nodes are unlikely: the
// nodes u are therefore cut into segments, each with the largest of what precedes it as its top. What underflows in a
// or E is below 1e-308 and so cannot matter where S(u) is ordinary; where S(u) is below TINY, that node's sum is redone
// exactly in the log domain. The backward pass distributes the posterior of each node over its predecessors in
// proportion to the terms of the same sum: every factor is a share of 1, so nothing overflows.
#pragma once

#include "dag_cpu_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

namespace {

constexpr double NEG_INF = -std::numeric_limits<double>::infinity();
constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();
constexpr double TINY = 1e-290;
const double LOG_TINY = std::log(TINY);
constexpr double LOG_NEGLIGIBLE = -60.0;  // of a term beside the largest of a sum: 1e-26 of it
constexpr double LOG_LEAST = -746.0;      // exp gives 0 below

// The part of the trellis that paths from the first to the last node can pass at target i: nodes first(i) .. last(i).
struct Band {
    int64_t n, m;  // nodes, targets
    int64_t first(int64_t i) const { return i; }
    int64_t last(int64_t i) const { return i == 0 ? 0 : n - m + i; }
    bool feasible() const { return m >= 1 && n >= m && (m > 1 || n == 1); }
};

// Nodes first .. last of a row that are summed relative to `top`, the largest alpha that precedes one of them.
struct Segment {
    int64_t first, last;
    double top;
};
constexpr double SPAN = 500.0;  // by which the largest alpha before one node of a segment and before another may differ

// Cuts the nodes u0 .. u1 that anything precedes into segments, which it appends, given previous[v0 .. v1]; if there is
// a NaN, into one with that as its top.
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

// Doubles that are not set to anything.
class Buffer {
public:
    double* of(int64_t size) {
        if (size > size_) {
            values_.reset();
            size_ = 0;
            values_.reset(new double[size]);
            size_ = size;
        }
        return values_.get();
    }
    int64_t size() const { return size_; }

private:
    std::unique_ptr<double[]> values_;
    int64_t size_ = 0;
};

// A thread's working memory, kept from sentence to sentence and from call to call: the pages of fresh memory cost more
// than the sums in them.
struct Scratch {
    Buffer weights, sums, shares;  // of a target
    Buffer edges, strip;
    std::vector<double> exact_flow;
    std::vector<Segment> segments;       // of a target; in the backward pass, of all
    std::vector<int64_t> first_segment;  // of each target
    Buffer rows;                         // weights and ratios of each segment
    std::vector<int64_t> strip_rows, strip_start;

    bool is_large() const {
        const int64_t largest =
            std::max<int64_t>({edges.size(), rows.size(), static_cast<int64_t>(exact_flow.capacity())});
        return largest > (int64_t{1} << 22);  // 32 MiB
    }
};

template <typename T>
void forward_sentence(const T* match, const T* links, Band band, int64_t M, int64_t L, T* log_prob, double* alpha,
                      Scratch& scratch) {
    for (int64_t j = 0; j < M * L; ++j) alpha[j] = NEG_INF;
    if (!band.feasible()) {
        *log_prob = static_cast<T>(NEG_INF);
        return;
    }
    double* edges = scratch.edges.of(L * L);
    exp_edges(links, band.n, L, edges);
    double* weights = scratch.weights.of(L);
    double* sums = scratch.sums.of(L);
    alpha[0] = match[0];
    for (int64_t i = 1; i < band.m; ++i) {
        const double* previous = alpha + (i - 1) * L;
        double* current = alpha + i * L;
        const int64_t v0 = band.first(i - 1), v1 = band.last(i - 1);
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

// The backward step of target i for the nodes u whose scaled sum is too small: adds posterior[u] times the share of
// each predecessor v to shares[v] and to flow[v][u].
template <typename T>
void share_exactly(const double* previous, const T* links, Band band, int64_t i, int64_t L, const double* posterior,
                   const double* log_sums, double* shares, std::vector<double>& flow) {
    if (flow.empty()) flow.assign(L * L, 0.0);
    const int64_t v0 = band.first(i - 1), v1 = band.last(i - 1);
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
    double* edges = scratch.edges.of(L * L);
    exp_edges(links, band.n, L, edges);
    std::vector<Segment>& segments = scratch.segments;
    std::vector<int64_t>& first_segment = scratch.first_segment;
    segments.clear();
    first_segment.assign(2, 0);
    for (int64_t i = 1; i < band.m; ++i) {
        const int64_t v1 = band.last(i - 1);
        cut(alpha + (i - 1) * L, band.first(i - 1), v1, band.first(i), band.last(i), segments);
        first_segment.push_back(static_cast<int64_t>(segments.size()));
    }
    double* weight_rows = scratch.rows.of(2 * segments.size() * L);
    double* ratio_rows = weight_rows + segments.size() * L;
    std::fill(weight_rows, ratio_rows + segments.size() * L, 0.0);
    scratch.exact_flow.clear();
    double* posterior = scratch.sums.of(L);  // of (i, u)
    double* shares = scratch.shares.of(L);
    double* log_sums = scratch.weights.of(L);

    for (int64_t u = 0; u < band.n; ++u) posterior[u] = 0.0;
    posterior[band.n - 1] = 1.0;
    for (int64_t i = band.m - 1; i >= 1; --i) {
        const double* previous = alpha + (i - 1) * L;
        const double* current = alpha + i * L;
        const int64_t v0 = band.first(i - 1), v1 = band.last(i - 1);
        const int64_t u0 = band.first(i), u1 = band.last(i);
        for (int64_t u = u0; u <= u1; ++u) grad_match[i * L + u] = static_cast<T>(grad * posterior[u]);
        for (int64_t v = v0; v <= v1; ++v) shares[v] = 0.0;
        bool exact = false;
        for (int64_t r = first_segment[i]; r < first_segment[i + 1]; ++r) {
            const Segment& segment = segments[r];
            double* weights = weight_rows + r * L;
            double* ratios = ratio_rows + r * L;
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
    grad_match[0] = static_cast<T>(grad * posterior[0]);
    double* flow = scratch.strip.of(L * STRIP);
    for (int64_t u0 = 0; u0 < band.n; u0 += STRIP) {
        scratch.strip_rows.clear();
        scratch.strip_start.assign(1, 0);
        for (int64_t i = 0; i < band.m; ++i) {
            for (int64_t r = first_segment[i]; r < first_segment[i + 1]; ++r) {
                if (segments[r].first < u0 + STRIP && segments[r].last >= u0) scratch.strip_rows.push_back(r);
            }
            scratch.strip_start.push_back(static_cast<int64_t>(scratch.strip_rows.size()));
        }
        accumulate_flow(weight_rows, ratio_rows, edges, scratch.strip_rows.data(), scratch.strip_start.data(), band.m,
                        band.n, L, u0, flow);
        const int64_t end = std::min(band.n, u0 + STRIP);
        for (int64_t v = 0; v < end; ++v) {
            for (int64_t u = std::max(u0, v + 1); u < end; ++u) {
                double of_edge = flow[v * STRIP + u - u0];
                if (!scratch.exact_flow.empty()) of_edge += scratch.exact_flow[v * L + u];
                grad_links[v * L + u] = static_cast<T>(grad * of_edge);
            }
        }
    }
}

}  // namespace
