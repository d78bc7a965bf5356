// Runs the passes of the CUDA kernels, on whatever libcudart.so is loaded (the simulator's), on drawn graphs or those of a
// file, and compares the results with the CPU library's in float64; gpu_simulate.sh calls it.
//   driver [-t float|double] [-b B] [-m M] [-l L] [-v variant] [-s spread] [-x missing] [-f file] [-p fba] [-r repeats]
// -v  0 whole sentences; 1 mixed lengths (whole, shorter, without a path, out of range); 2 as 1, with NaN; 3 as early in
//     training; 4 as late in training: one path stands out
// -f  graphs as dump_graphs.py writes them: B, M, L, node and target lengths (int64), match and links (float32)
// Results of each repetition have to be bitwise the same. The exit status is 0 if all is as it should be.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dag.h"

static void check(int code, const char* what) {
    if (code == 0) return;
    fprintf(stderr, "DRIVER %s: code %d\n", what, code);
    exit(1);
}

// Prints on a line of its own, for grep.
#define SAY(...) (printf("DRIVER " __VA_ARGS__), printf("\n"), fflush(stdout))

struct Graphs {
    int64_t B, M, L;
    std::vector<int64_t> nodes, targets;
    std::vector<double> match, links;
};

static Graphs read_graphs(const char* path) {
    FILE* const file = fopen(path, "rb");
    if (!file) check(-1, path);
    auto read = [&](auto* to, size_t n) { check(fread(to, sizeof *to, n, file) == n ? 0 : -1, path); };
    Graphs g;
    int64_t sizes[3];
    read(sizes, 3);
    g.B = sizes[0], g.M = sizes[1], g.L = sizes[2];
    g.nodes.resize(g.B), g.targets.resize(g.B);
    read(g.nodes.data(), g.B), read(g.targets.data(), g.B);
    std::vector<float> match(g.B * g.M * g.L), links(g.B * g.L * g.L);
    read(match.data(), match.size()), read(links.data(), links.size());
    g.match.assign(match.begin(), match.end()), g.links.assign(links.begin(), links.end());
    fclose(file);
    return g;
}

// Emissions around -log(50265) and transitions a softmax over the later nodes of logits of deviation spread / 4; late in
// training, one path stands out by 8.
static void draw_models_graphs(Graphs& g, double spread, bool late, std::mt19937& random) {
    const int64_t M = g.M, L = g.L;
    std::normal_distribution<double> normal;
    for (int64_t b = 0; b < g.B; ++b) {
        std::vector<int64_t> path(M);
        for (int64_t i = 0; i < M; ++i) path[i] = M > 1 ? i * (L - 1) / (M - 1) : 0;
        for (int64_t v = 0; v < L; ++v) {
            std::vector<double> logit(L, -INFINITY);
            double total = 0;
            for (int64_t u = v + 1; u < L; ++u) {
                logit[u] = spread / 4 * normal(random);
                for (int64_t i = 0; late && i + 1 < M; ++i)
                    if (path[i] == v && path[i + 1] == u) logit[u] += 8;
                total += exp(logit[u]);
            }
            for (int64_t u = 0; u < L; ++u) g.links[(b * L + v) * L + u] = logit[u] - log(total);
        }
        for (int64_t i = 0; i < M; ++i)
            for (int64_t u = 0; u < L; ++u)
                g.match[(b * M + i) * L + u] = late && path[i] == u ? -0.1 : -10.8 + spread / 4 * normal(random);
    }
}

static Graphs draw_graphs(int64_t B, int64_t M, int64_t L, int variant, double spread, double missing) {
    Graphs g{B, M, L, std::vector<int64_t>(B, L), std::vector<int64_t>(B, M), std::vector<double>(B * M * L),
             std::vector<double>(B * L * L)};
    std::mt19937 random(static_cast<unsigned>(M * 1000 + L + 77 * variant));
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    for (auto& x : g.match) x = -spread * uniform(random);
    for (auto& x : g.links) x = uniform(random) < missing ? -INFINITY : -spread * uniform(random);
    if (variant == 3 || variant == 4) draw_models_graphs(g, spread, variant == 4, random);
    if (variant == 1 || variant == 2) {
        for (int64_t b = 0; b < B; ++b) {
            if (b % 4 == 1) g.nodes[b] = L - L / 3, g.targets[b] = M / 2 + 1;
            if (b % 4 == 2) g.targets[b] = L + 1 > M ? M + 1 : L;  // out of range
            if (b % 4 == 3) g.nodes[b] = M - 1;                      // fewer nodes than targets
        }
        // what lies beyond the lengths is never read
        for (int64_t b = 0; b < B; ++b) {
            for (int64_t i = 0; i < M; ++i)
                for (int64_t u = 0; u < L; ++u)
                    if (i >= g.targets[b] || u >= g.nodes[b]) g.match[(b * M + i) * L + u] = NAN;
            for (int64_t v = 0; v < L; ++v)
                for (int64_t u = 0; u < L; ++u)
                    if (v >= u || u >= g.nodes[b]) g.links[(b * L + v) * L + u] = NAN;
        }
    }
    if (variant == 2) g.links[L / 2] = NAN, g.match[(B > 1 ? M * L : 0) + L] = NAN;
    return g;
}

template <typename T>
struct Device {
    T* at = nullptr;
    size_t n;
    explicit Device(size_t n_) : n(n_) { check(cudaMalloc((void**)&at, n * sizeof(T) + 1), "cudaMalloc"), poison(); }
    explicit Device(const std::vector<T>& from) : Device(from.size()) {
        check(cudaMemcpy(at, from.data(), n * sizeof(T), cudaMemcpyHostToDevice), "copy in");
    }
    void poison() {
        std::vector<unsigned char> f(n * sizeof(T), 0xff);
        if (n) check(cudaMemcpy(at, f.data(), f.size(), cudaMemcpyHostToDevice), "poison");
    }
    std::vector<T> get() const {
        std::vector<T> to(n);
        if (n) check(cudaMemcpy(to.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost), "copy out");
        return to;
    }
};

// Prints the largest differences, absolute and relative (over at least 1), and returns whether they are tolerable.
template <typename A, typename E>
bool same(const char* what, const std::vector<A>& actual, const std::vector<E>& expected, double tolerance, bool relative) {
    double most = 0, most_relative = 0;
    long wrong_kind = 0;  // NaN or infinity on one side only
    for (size_t i = 0; i < expected.size(); ++i) {
        const double a = double(actual[i]), e = double(expected[i]);
        if (isnan(a) || isnan(e) || isinf(a) || isinf(e)) {
            const bool wrong = isnan(a) != isnan(e) || (!isnan(e) && a != e);
            if (wrong && wrong_kind++ < 4) SAY("  entry %zu is %g, not %g", i, a, e);
            continue;
        }
        most = fmax(most, fabs(a - e));
        most_relative = fmax(most_relative, fabs(a - e) / fmax(1.0, fabs(e)));
    }
    const bool ok = wrong_kind == 0 && (relative ? most_relative : most) <= tolerance;
    SAY("%-10s max_abs=%.3g max_rel=%.3g wrong_kind=%ld of %zu %s", what, most, most_relative, wrong_kind, expected.size(),
        ok ? "ok" : "BAD");
    return ok;
}

template <typename T>
std::vector<T> rounded(const std::vector<double>& from) {
    return std::vector<T>(from.begin(), from.end());
}

template <typename T>
int run(int dtype, const Graphs& g, const std::string& passes, int repeats) {
    const int64_t B = g.B, M = g.M, L = g.L;
    const std::vector<T> match = rounded<T>(g.match), links = rounded<T>(g.links);
    std::vector<double> grad(B);
    for (int64_t b = 0; b < B; ++b) grad[b] = 0.5 + b % 5 * 0.25;

    // The CPU library refuses lengths out of range, which count as a sentence without a path here.
    std::vector<int64_t> cpu_nodes(g.nodes), cpu_targets(g.targets);
    for (int64_t b = 0; b < B; ++b)
        if (g.targets[b] > M || g.nodes[b] > L) cpu_nodes[b] = 0, cpu_targets[b] = M;
    const std::vector<double> exact_match(match.begin(), match.end()), exact_links(links.begin(), links.end());
    std::vector<double> log_prob(B), grad_match(B * M * L), grad_links(B * L * L), alpha(B * M * L);
    std::vector<int64_t> alignment(B * L);
    const int64_t *const n = cpu_nodes.data(), *const m = cpu_targets.data();
    check(exlm_dag_forward_cpu(EXLM_DAG_FLOAT64, B, M, L, exact_match.data(), exact_links.data(), n, m, log_prob.data(),
                               alpha.data(), 1), "forward, CPU");
    check(exlm_dag_backward_cpu(EXLM_DAG_FLOAT64, B, M, L, grad.data(), exact_match.data(), exact_links.data(), n, m,
                                alpha.data(), grad_match.data(), grad_links.data(), 1), "backward, CPU");
    check(exlm_dag_best_alignment_cpu(EXLM_DAG_FLOAT64, B, M, L, exact_match.data(), exact_links.data(), n, m,
                                      alignment.data(), 1), "alignment, CPU");

    Device<T> d_match(match), d_links(links), d_grad(rounded<T>(grad)), d_log_prob(B), d_alpha(2 * B * M * L),
        d_grad_match(B * M * L), d_grad_links(B * L * L);
    Device<int64_t> d_nodes(g.nodes), d_targets(g.targets), d_alignment(B * L);
    const bool single = sizeof(T) == 4, forward = passes.find_first_of("fb") != std::string::npos;
    bool good = true;
    std::vector<std::vector<T>> first;
    for (int r = 0; r < repeats; ++r) {
        std::vector<std::vector<T>> results;
        if (forward) {
            d_log_prob.poison(), d_alpha.poison();
            check(exlm_dag_forward_cuda(dtype, B, M, L, d_match.at, d_links.at, d_nodes.at, d_targets.at, d_log_prob.at,
                                        d_alpha.at, nullptr, nullptr), "forward");
            check(cudaDeviceSynchronize(), "synchronize");
            results.push_back(d_log_prob.get());
            good &= same("log_prob", results.back(), log_prob, single ? 1e-6 : 1e-13, true);
        }
        if (passes.find('b') != std::string::npos) {
            Device<char> workspace(exlm_dag_workspace_cuda(EXLM_DAG_PASS_BACKWARD, dtype, B, M, L));
            d_grad_match.poison(), d_grad_links.poison();
            check(exlm_dag_backward_cuda(dtype, B, M, L, d_grad.at, d_match.at, d_links.at, d_nodes.at, d_targets.at,
                                         d_alpha.at, d_grad_match.at, d_grad_links.at, workspace.at, nullptr), "backward");
            check(cudaDeviceSynchronize(), "synchronize");
            results.push_back(d_grad_match.get()), results.push_back(d_grad_links.get());
            good &= same("grad_match", results.end()[-2], grad_match, single ? 1e-5 : 1e-11, false);
            good &= same("grad_links", results.back(), grad_links, single ? 1e-5 : 1e-11, false);
        }
        if (passes.find('a') != std::string::npos) {
            Device<char> workspace(exlm_dag_workspace_cuda(EXLM_DAG_PASS_ALIGNMENT, dtype, B, M, L));
            d_alignment.poison();
            check(exlm_dag_best_alignment_cuda(dtype, B, M, L, d_match.at, d_links.at, d_nodes.at, d_targets.at,
                                               d_alignment.at, workspace.at, nullptr), "alignment");
            check(cudaDeviceSynchronize(), "synchronize");
            good &= same("alignment", d_alignment.get(), alignment, 0, false);
        }
        if (r == 0) first = results;
        for (size_t k = 0; k < results.size(); ++k) {
            if (memcmp(results[k].data(), first[k].data(), results[k].size() * sizeof(T)) == 0) continue;
            SAY("repetition %d differs BAD", r);
            good = false;
        }
    }
    if (void (*report)() = (void (*)())dlsym(RTLD_DEFAULT, "gpusim_check_report")) report();
    SAY("DONE %d", !good);
    return !good;
}

int main(int argc, char** argv) {
    int64_t B = 2, M = 4, L = 8;
    int variant = 0, repeats = 1, c;
    double spread = 4, missing = 0.2;
    std::string type = "float", passes = "fba", file;
    while ((c = getopt(argc, argv, "t:b:m:l:v:s:x:f:p:r:")) != -1) {
        switch (c) {
            case 't': type = optarg; break;
            case 'b': B = atol(optarg); break;
            case 'm': M = atol(optarg); break;
            case 'l': L = atol(optarg); break;
            case 'v': variant = atoi(optarg); break;
            case 's': spread = atof(optarg); break;
            case 'x': missing = atof(optarg); break;
            case 'f': file = optarg; break;
            case 'p': passes = optarg; break;
            case 'r': repeats = atoi(optarg); break;
            default: return 2;
        }
    }
    const Graphs g = file.empty() ? draw_graphs(B, M, L, variant, spread, missing) : read_graphs(file.c_str());
    const int rc = type == "float" ? run<float>(EXLM_DAG_FLOAT32, g, passes, repeats)
                                   : run<double>(EXLM_DAG_FLOAT64, g, passes, repeats);
    fflush(stdout);
    _exit(rc);
}
