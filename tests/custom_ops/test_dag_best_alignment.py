"""Viterbi against enumeration of all paths."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fs_plugins.custom_ops.dag_loss import dag_best_alignment
from tests import oracles


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
    alignment = dag_best_alignment(match, links, torch.tensor([n]), torch.tensor([m]))[0]
    if path is None:
        assert (alignment == -1).all()
    else:
        assert score_of(alignment, match[0], links[0]) == pytest.approx(best, abs=1e-10)
        assert (alignment >= 0).sum() == m and alignment[0] == 0 and alignment[n - 1] == m - 1


def test_ties_go_to_the_earliest_predecessor(device):
    zeros = torch.zeros(1, 3, 6, device=device), torch.zeros(1, 6, 6, device=device)
    n, m = torch.tensor([6], device=device), torch.tensor([3], device=device)
    assert dag_best_alignment(*zeros, n, m)[0].tolist() == [0, 1, -1, -1, -1, 2]


def test_peaked_inputs(device):
    """Scores of thousands of nats below zero are compared as exactly as ordinary ones."""
    match = torch.full((1, 4, 8), -1000.0, device=device)
    links = torch.full((1, 8, 8), -math.inf, device=device)
    for v, u in ((0, 2), (2, 5), (5, 7), (0, 3), (3, 5)):
        links[0, v, u] = -700.0
    links[0, 3, 5] = -699.0
    n, m = torch.tensor([8], device=device), torch.tensor([4], device=device)
    assert dag_best_alignment(match, links, n, m)[0].tolist() == [0, -1, -1, 1, -1, 2, -1, 3]
