"""The best decoding against every path and every word of small graphs, one by one."""

import itertools
import math
from collections import Counter

import pytest
import torch

from fs_plugins.inference.decodings import GraphDecoder, Path
from tests import oracles

BOS, EOS, V, L = 0, 1, 4, 6


def graph(seed: int, nodes: int = L, missing: float = 0.0):
    """words [L, V] and links [L, L], normalised, far from uniform."""
    generator = torch.Generator().manual_seed(seed)
    words = (2 * torch.randn(nodes, V, generator=generator, dtype=torch.float64)).log_softmax(-1)
    _, links = oracles.random_graph(1, 2, nodes, seed=seed, scale=1.5, missing=missing)
    return words, links[0]


def decodings(words, links, count) -> dict[tuple, float]:
    """(path, words) -> its probability, of those of ``count`` words."""
    n, m, result = len(words), count + 2, {}
    for transition, path in oracles.path_scores(torch.zeros(m, n), links, n, m):
        if transition == -math.inf:
            continue
        for inner in itertools.product(range(V), repeat=count):
            emitted = sum(float(words[u, y]) for u, y in zip(path, (BOS, *inner, EOS), strict=True))
            result[path, inner] = math.exp(transition + emitted)
    return result


@pytest.mark.parametrize(("missing", "barred"), [(0.0, ()), (0.4, ()), (0.0, (0, 2))])
@pytest.mark.parametrize("count", range(L - 1))
def test_best_decoding(count, missing, barred):
    found = 0
    for seed in range(6):
        words, links = graph(seed, missing=missing)
        if not any(decodings(words, links, n) for n in range(L - 1)):
            with pytest.raises(ValueError, match="no path"):
                GraphDecoder(words, links, BOS, EOS)
            continue
        everything = decodings(words, links, count)
        allowed = {key: prob for key, prob in everything.items() if not {*key[1]} & {*barred}}
        best = GraphDecoder(words, links, BOS, EOS, barred).best(count)
        if not allowed:
            assert best is None
            continue
        (nodes, inner), prob = max(allowed.items(), key=lambda item: item[1])
        assert best == Path(nodes, inner, pytest.approx(math.log(prob)))
        found += 1
    assert found > 1 or missing


@pytest.mark.parametrize("seed", range(3))
def test_log_probs_are_sums_over_the_enumeration(seed):
    words, links = graph(seed)
    decoder = GraphDecoder(words, links, BOS, EOS)
    by_words = Counter()
    for count in range(L - 1):
        for (_, inner), prob in decodings(words, links, count).items():
            by_words[inner] += prob
    for inner, prob in itertools.islice(by_words.items(), 0, None, 7):
        assert decoder.words_log_prob(inner) == pytest.approx(math.log(prob))


@pytest.mark.parametrize("dead_end", [False, True])
def test_visits_are_those_of_the_paths(dead_end):
    _, links = graph(3)
    if dead_end:
        links[3] = -math.inf
    decoder = GraphDecoder(torch.zeros(L, V), links, BOS, EOS)
    visits, reach = torch.zeros(L, dtype=torch.float64), 0.0
    for m in range(2, L + 1):
        for score, path in oracles.path_scores(torch.zeros(m, L), links, L, m):
            visits[list(path)] += math.exp(score)
            reach += math.exp(score)
    assert (reach < 0.999) == dead_end  # nodes that have no way on
    torch.testing.assert_close(decoder.visits(), visits / reach)
