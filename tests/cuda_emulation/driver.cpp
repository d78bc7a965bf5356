// Runs both passes of the emulated kernels over many sizes, on buffers of exactly the sizes that dag.h names: a program for
// sanitizers to watch (sanitize.sh). It checks that results do not depend on the order of threads, and nothing else.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <cstring>
#include <random>
#include <vector>

#include "dag.h"

extern "C" void exlm_emulation_set(int shared_limit, unsigned seed);

namespace {

void check(int code, const char* what) {
    if (code == 0) return;
    fprintf(stderr, "%s: code %d\n", what, code);
    exit(1);
}

struct Results {
    std::vector<float> log_prob, alpha, grad_match, grad_links;
    bool operator==(const Results& other) const {
        auto same = [](const auto& a, const auto& b) { return std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0; };
        return same(log_prob, other.log_prob) && same(alpha, other.alpha) && same(grad_match, other.grad_match) &&
               same(grad_links, other.grad_links);
    }
};

Results run(int64_t B, int64_t M, int64_t L, const std::vector<float>& match, const std::vector<float>& links,
               const std::vector<int64_t>& nodes, const std::vector<int64_t>& targets) {
    Results r{std::vector<float>(B), std::vector<float>(2 * B * M * L), std::vector<float>(B * M * L), std::vector<float>(B * L * L)};
    const std::vector<float> grad(B, 0.5f);
    check(exlm_dag_forward_cuda(B, M, L, match.data(), links.data(), nodes.data(), targets.data(), r.log_prob.data(),
                                r.alpha.data(), nullptr),
          "forward");
    const int64_t bytes = B * M * ((L + 31) / 32 * 32) * 2 * static_cast<int64_t>(sizeof(float));
    auto* const workspace = static_cast<float*>(aligned_alloc(64, (bytes + 64) / 64 * 64));
    check(exlm_dag_backward_cuda(B, M, L, grad.data(), match.data(), links.data(), nodes.data(), targets.data(),
                                 r.alpha.data(), r.grad_match.data(), r.grad_links.data(), workspace, nullptr),
          "backward");
    free(workspace);
    return r;
}

void all_ways(int64_t M, int64_t L, double spread, double missing) {
    const int64_t B = 4;
    std::mt19937 random(static_cast<unsigned>(M * 1000 + L));
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    std::vector<float> match(B * M * L), links(B * L * L);
    for (auto& x : match) x = static_cast<float>(-spread * uniform(random));
    for (auto& x : links) x = static_cast<float>(uniform(random) < missing ? -INFINITY : -spread * uniform(random));
    // whole, shorter, without a path, out of range
    const std::vector<int64_t> nodes{L, L - L / 3, L, L + 1}, targets{M, M / 2 + 1, M + 1, M};
    for (const int limit : {232448, 65536, 0}) {
        exlm_emulation_set(limit, 0);
        const auto first = run(B, M, L, match, links, nodes, targets);
        for (const unsigned seed : {1u, 4u}) {
            exlm_emulation_set(limit, seed);
            if (!(run(B, M, L, match, links, nodes, targets) == first)) {
                fprintf(stderr, "M=%ld L=%ld, %d bytes of shared memory: the order of threads matters\n", static_cast<long>(M),
                        static_cast<long>(L), limit);
                exit(1);
            }
        }
    }
}

}  // namespace

int main() {
    const int64_t sizes[][2] = {{1, 1}, {2, 2}, {3, 9}, {8, 31}, {5, 32}, {9, 33}, {6, 64}, {12, 84}, {7, 130}, {3, 316}, {2, 353}};
    for (const auto& size : sizes) {
        for (const double spread : {4.0, 200.0}) all_ways(size[0], size[1], spread, 0.2);
    }
    puts("all sizes ran");
}
