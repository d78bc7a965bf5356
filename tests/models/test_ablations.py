"""The paper's ablations of ExLM: without 2D RoPE, sparse DAG."""

import itertools
import math

import pytest
import torch

from tests import builders, oracles

WORDS = builders.dictionary(20)


def graph_of(model, masks=(2, 5)):
    tokens, targets = builders.sentence(WORDS, 6, masks)
    return model(tokens[None], target=targets[None])[0]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_path_of_the_sparse_dag_has_two_states_of_one_token(k):
    model = builders.exlm(WORDS, ext_state_num=k, state_graph="sparse")
    graph = graph_of(model)
    links, layout = graph.links[0], graph.layout
    sources, L, M = layout.node_sources[0].tolist(), len(links), layout.targets.shape[1]
    found = 0
    for m in range(1, L + 1):
        for path in oracles.paths(L, m):
            if all(links[v, u] > -math.inf for v, u in itertools.pairwise(path)):
                found += 1
                assert len({sources[u] for u in path}) == len(path)
                assert m <= M
    assert found == (1 + k) ** (M - 2)  # of each inner token one state, or none
    loss, _, log = builders.criterion(WORDS)(
        model, builders.sample(WORDS, [builders.sentence(WORDS, 6, [2, 5])])
    )
    assert log["nonfinite"] == 0 and torch.isfinite(loss)


def test_sparse_dag_keeps_all_edges_between_tokens():
    dense, sparse = builders.exlm(WORDS), builders.exlm(WORDS, state_graph="sparse")
    has_edge = graph_of(sparse).links[0] > -math.inf
    sources = graph_of(sparse).layout.node_sources[0]
    expected = (graph_of(dense).links[0] > -math.inf) & (sources[:, None] != sources[None, :])
    assert torch.equal(has_edge, expected)
    rows = graph_of(sparse).links[0].exp().sum(-1)
    assert ((rows - 1).abs() < 1e-5).sum() == 12 and (rows == 0).sum() == 4  # </s>'s states have no successor


def test_without_2d_rope_the_copies_are_told_apart_by_their_index():
    model = builders.exlm(WORDS, rope_dimensions=1)
    assert model.encoder.sentence_encoder.rot_emb.inv_freq.shape == (4,)
    layout = graph_of(model).layout
    coordinates = model.encoder._coordinates(layout)
    assert coordinates[0, :, 0].tolist() == list(range(layout.tokens.shape[1]))
    two = builders.exlm(WORDS)
    both = two.encoder._coordinates(layout)
    assert torch.equal(both[..., 0], layout.positions) and torch.equal(both[..., 1], layout.copies)
    assert not torch.allclose(graph_of(model).node_states, graph_of(two).node_states)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_path_of_the_lattice_has_one_state_of_every_token(k):
    """At first none of them is favoured: each has about probability 1 / k^(tokens - 1)."""
    graph = graph_of(builders.exlm(WORDS, ext_state_num=k, state_graph="lattice"))
    links, sources = graph.links[0], graph.layout.node_sources[0].tolist()
    L, M = len(links), graph.layout.targets.shape[1]
    found = [
        (path, sum(links[v, u].item() for v, u in itertools.pairwise(path)))
        for m in range(1, L + 1)
        for path in oracles.paths(L, m)
        if all(links[v, u] > -math.inf for v, u in itertools.pairwise(path))
    ]
    whole = [score for path, score in found if path[-1] == L - 1 and path[0] == 0]
    tokens = sorted(set(sources))
    assert all([sources[u] for u in path] == tokens[: len(path)] for path, _ in found if path[0] == 0)
    assert len(whole) == k ** (M - 2)  # from <s>'s first node to </s>'s last
    assert sum(map(math.exp, whole)) == pytest.approx(1 / k, rel=0.2)
    loss, _, log = builders.criterion(WORDS)(
        builders.exlm(WORDS, ext_state_num=k, state_graph="lattice"),
        builders.sample(WORDS, [builders.sentence(WORDS, 6, [2, 5]), builders.sentence(WORDS, 3, [])]),
    )
    assert log["nonfinite"] == 0 and torch.isfinite(loss)


@pytest.mark.parametrize("k", [1, 2, 16])
def test_any_number_of_states(k):
    model = builders.exlm(WORDS, ext_state_num=k)
    loss, _, log = builders.criterion(WORDS)(
        model, builders.sample(WORDS, [builders.sentence(WORDS, 8, [1, 2, 3, 4, 5, 6, 7, 8])])
    )
    loss.backward()
    assert log["nodes"] == 10 * k and log["nonfinite"] == 0
