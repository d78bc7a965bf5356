"""Viterbi, compiled and reference, against enumeration of all paths."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fs_plugins.custom_ops.dag_loss import dag_best_alignment
from fs_plugins.custom_ops.dag_reference import dag_best_alignment_reference
from tests import oracles

IMPLEMENTATIONS = [dag_best_alignment, dag_best_alignment_reference]


def score_of(alignment, match, links):
    """Log-probability of one sentence's alignment [L], after checking that it is one path emitting 0, 1, 2,
    ..."""
    nodes = (alignment >= 0).nonzero().flatten().tolist()
    assert alignment[nodes].tolist() == list(range(len(nodes)))
    score = sum(match[i, u].item() for i, u in enumerate(nodes))
    return score + sum(links[v, u].item() for v, u in zip(nodes, nodes[1:], strict=False))


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_drawn_graphs_equal_enumeration(data):
    L, M = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    seed, missing = data.draw(st.integers(0, 10**6)), data.draw(st.sampled_from([0.0, 0.5]))
    match, links = oracles.random_graph(1, M, L, seed=seed, missing=missing)
    n, m = data.draw(st.integers(0, L)), data.draw(st.integers(0, M))
    best, path = oracles.best_path(match[0], links[0], n, m)
    for implementation in IMPLEMENTATIONS:
        alignment = implementation(match, links, torch.tensor([n]), torch.tensor([m]))[0]
        if path is None:
            assert (alignment == -1).all()
        else:
            assert score_of(alignment, match[0], links[0]) == pytest.approx(best, abs=1e-10)
            assert (alignment >= 0).sum() == m and alignment[0] == 0 and alignment[n - 1] == m - 1


def test_agrees_with_the_reference_at_real_sizes(device):
    match, links = oracles.random_graph(6, 21, 84, seed=1, dtype=torch.float32, missing=0.2)
    n, m = torch.tensor([84, 80, 84, 76, 84, 20]), torch.tensor([21, 20, 3, 19, 2, 21])
    arguments = [t.to(device) for t in (match, links, n, m)]
    alignment = dag_best_alignment(*arguments).cpu()
    reference = dag_best_alignment_reference(match, links, n, m)
    assert (alignment[5] == -1).all()
    for b in range(5):
        expected = score_of(reference[b], match[b], links[b])
        assert score_of(alignment[b], match[b], links[b]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=["compiled", "reference"])
def test_ties_go_to_the_earliest_predecessor(implementation, device):
    zeros = torch.zeros(1, 3, 6, device=device), torch.zeros(1, 6, 6, device=device)
    n, m = torch.tensor([6], device=device), torch.tensor([3], device=device)
    assert implementation(*zeros, n, m)[0].tolist() == [0, 1, -1, -1, -1, 2]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=["compiled", "reference"])
def test_peaked_inputs(implementation, device):
    """Scores of thousands of nats below zero are compared as exactly as ordinary ones."""
    match = torch.full((1, 4, 8), -1000.0, device=device)
    links = torch.full((1, 8, 8), -math.inf, device=device)
    for v, u in ((0, 2), (2, 5), (5, 7), (0, 3), (3, 5)):
        links[0, v, u] = -700.0
    links[0, 3, 5] = -699.0
    n, m = torch.tensor([8], device=device), torch.tensor([4], device=device)
    assert implementation(match, links, n, m)[0].tolist() == [0, -1, -1, 1, -1, 2, -1, 3]
