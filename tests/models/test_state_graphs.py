"""--state-graph and --max-transition-length: which paths there are, and the loss by enumerating them."""

import itertools
import math

import pytest
import torch

from fs_plugins.exlm.transitions import GRAPHS, edge_mask
from tests import oracles
from tests.criterions.batch import BATCH, SENTENCES, WORDS
from tests.support import builders


def has_edge(graph: str, k: int, v: int, u: int) -> bool:
    """By its definition."""
    return v < u and (graph == "dag" or v // k != u // k)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("graph", GRAPHS)
def test_edges_are_those_of_the_definition(graph, k):
    lengths, L = torch.tensor([4 * k, 2 * k]), 4 * k
    mask = edge_mask(graph, lengths, L, k)
    for b, v, u in itertools.product(range(2), range(L), range(L)):
        assert mask[b, v, u] == (has_edge(graph, k, v, u) and u < lengths[b]), (b, v, u)
    shorter, node = edge_mask(graph, lengths, L, k, max_length=2 * k - 1), torch.arange(L)
    assert torch.equal(shorter, mask & (node - node[:, None] < 2 * k))


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("graph", GRAPHS)
def test_the_least_length_leaves_every_sentence_a_path(graph, k):
    """Through as many nodes as targets; one less does not, for two targets."""
    reached = []
    for M, shorter in ((2, 0), (3, 0), (6, 0), (2, 1)):
        mask = edge_mask(graph, torch.tensor([M * k]), M * k, k, 2 * k - 1 - shorter)[0]
        reached.append(bool(torch.linalg.matrix_power(mask.double(), M - 1)[0, -1]))
    assert reached == [True, True, True, False]
    builders.exlm(WORDS, ext_state_num=k, state_graph=graph, max_transition_length=2 * k - 1)
    with pytest.raises(ValueError, match="without a path"):
        builders.exlm(WORDS, ext_state_num=k, state_graph=graph, max_transition_length=2 * k - 2)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("graph", GRAPHS)
def test_loss_equals_enumeration_of_all_paths(graph, k):
    model = builders.exlm(WORDS, ext_state_num=k, state_graph=graph).double()
    loss, _, log = builders.criterion(WORDS)(model, BATCH)
    expected = 0.0
    for tokens, targets in SENTENCES:
        states, _ = model(tokens[None], target=targets[None])
        links, layout = states.links[0].detach(), states.layout
        y, L = layout.targets[0], int(layout.node_lengths[0])
        scores = states.node_states[0] @ model.encoder.lm_head.weight.t() + model.encoder.lm_head.bias
        match = scores.log_softmax(-1)[:, y].t().detach()  # [M, L]
        scored = oracles.path_scores(match, links, L, len(y))
        paths = ((math.exp(score), itertools.pairwise(path)) for score, path in scored)
        allowed = [prob for prob, edges in paths if all(has_edge(graph, k, *edge) for edge in edges)]
        expected -= math.log(math.fsum(allowed)) / len(y)
    assert log["nonfinite"] == 0 and loss.item() == pytest.approx(expected, rel=1e-11)
