"""The lattice against the paper's graph with the lattice's edges, in float64."""

from types import SimpleNamespace

import pytest
import torch

from fs_plugins.exlm.alignment import dag_loss_reference, own_states
from fs_plugins.exlm.graphs import GRAPHS
from fs_plugins.exlm.lattice import lattice_log_prob
from fs_plugins.exlm.transitions import transition_log_probs
from fs_plugins.speed.states import StateFeatures

LENGTHS = torch.tensor([5, 2, 3])


def random(*shape: int, seed: int, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_transitions_and_likelihood_are_those_of_the_graph_with_the_same_edges(k):
    B, M, d, H = 3, 5, 12, 3
    q, keys, gates = random(B, M, k, d, seed=1), random(B, M, k, d, seed=2), random(B, M, k, H, seed=3)
    match = 3 * random(B, M, M * k, seed=4)  # the targets at all nodes
    results, kind = [], GRAPHS["lattice"]
    layout = SimpleNamespace(node_lengths=LENGTHS * k, target_lengths=LENGTHS)
    for is_lattice in (True, False):
        inputs = [t.clone().requires_grad_() for t in (q, keys, gates, match)]
        by_node = [t.flatten(1, 2) for t in inputs[:3]]
        if is_lattice:
            steps = kind.transitions(*by_node, layout, k, -1)
            links = kind.links(steps, layout)
            log_probs = lattice_log_prob(own_states(inputs[3], k), steps, LENGTHS)
        else:
            links = transition_log_probs(*by_node, kind.edges(LENGTHS * k, M * k, k))
            log_probs = dag_loss_reference(inputs[3], links, LENGTHS * k, LENGTHS)
        gradients = torch.autograd.grad((log_probs * torch.tensor([1.0, -2.0, 0.5])).sum(), inputs)
        results.append((links, log_probs, *gradients))
    torch.testing.assert_close(*results)


def test_long_sentences_in_float32():
    B, M, k = 2, 200, 4
    own, steps = 40 * random(B, M, k, seed=1), (20 * random(B, M - 1, k, k, seed=2)).log_softmax(-1)
    lengths = torch.tensor([M, M // 3])
    expected = lattice_log_prob(own, steps, lengths)
    torch.testing.assert_close(
        lattice_log_prob(own.float(), steps.float(), lengths).double(), expected, rtol=1e-5, atol=1e-3
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_products_with_the_features_of_states(dtype):
    """As of the layer norm, which is never computed for a state; also of large features in half precision."""
    x, v, weight, bias = (random(*n, seed=len(n)) for n in ((2, 3, 1, 6), (4, 6), (5, 1, 6), (5,)))
    norm, weight, x = torch.nn.LayerNorm(6).double(), weight[:, 0], 300 * x + 7
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    v = 100 * v - 3
    expected = norm(x + v) @ weight.t() + bias
    features = StateFeatures(x.to(dtype), v.to(dtype), norm.to(dtype))
    given = features.linear(weight.to(dtype), bias.to(dtype))
    tolerance = {"rtol": 0.02, "atol": 0.02} if dtype == torch.float16 else {}
    torch.testing.assert_close(given.double(), expected, **(tolerance or {"rtol": 1e-4, "atol": 1e-5}))
    assert given.dtype == dtype and given.shape == (2, 3, 4, 5)
