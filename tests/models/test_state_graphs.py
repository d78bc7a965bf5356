"""--state-graph, state embeddings and biases: which paths there are, and the loss by enumerating them."""

import bisect
import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from fs_plugins.exlm.graphs import GRAPHS
from tests import oracles
from tests.support import builders

WORDS = builders.dictionary(20)
LONG_DISTANCES = (9, 12, 16, 23, 32, 46, 64, 91)  # the least of each bucket: 8 times powers of the root of 2
SENTENCES = [builders.sentence(WORDS, 5, [2, 4]), builders.sentence(WORDS, 2, [1], seed=1, end=False)]


def has_edge(graph: str, k: int, v: int, u: int) -> bool:
    """By its definition."""
    return {
        "dag": v < u,
        "sparse": v < u and v // k != u // k,
        "lattice": v // k + 1 == u // k,
    }[graph]


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("graph", GRAPHS)
def test_edges_are_those_of_the_definition(graph, k):
    lengths, L = torch.tensor([4 * k, 2 * k]), 4 * k
    mask = GRAPHS[graph].edges(lengths, L, k)
    for b, v, u in itertools.product(range(2), range(L), range(L)):
        assert mask[b, v, u] == (has_edge(graph, k, v, u) and u < lengths[b]), (b, v, u)
    shorter, node = GRAPHS[graph].edges(lengths, L, k, max_length=2 * k - 1), torch.arange(L)
    assert torch.equal(shorter, mask & (node - node[:, None] < 2 * k))


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("graph", [name for name, kind in GRAPHS.items() if kind.least_length])
def test_the_least_length_leaves_every_sentence_a_path(graph, k):
    """Through as many nodes as targets; one less does not, for two targets."""
    kind, reached = GRAPHS[graph], []
    for M, shorter in ((2, 0), (3, 0), (6, 0), (2, 1)):
        mask = kind.edges(torch.tensor([M * k]), M * k, k, kind.least_length(k) - shorter)[0]
        reached.append(bool(torch.linalg.matrix_power(mask.double(), M - 1)[0, -1]))
    assert reached == [True, True, True, False]


@pytest.mark.parametrize("feature", ["feature", "feature:distance"])
@pytest.mark.parametrize("graph", ["dag", "lattice"])
def test_a_state_s_vector_is_added_before_the_last_layer_norm(graph, feature):
    flags = {"ext_state_num": 3, "state_graph": graph, "expand_from_layer": -1, "links_feature": feature}
    model = builders.exlm(WORDS, **flags, state_embedding_scale=1.0).double()
    tokens, targets = SENTENCES[0]
    outputs = []  # of the last layer
    model.encoder.sentence_encoder.layers[-1].register_forward_hook(lambda *args: outputs.append(args[-1][0]))
    states, _ = model(tokens[None], target=targets[None])
    model(tokens[None], target=targets[None], features_only=True)
    nodes = outputs[1][states.layout.node_sources[0]]
    node = torch.arange(len(nodes))
    encoder, vectors = model.encoder, model.encoder.state_embedding[node % 3]
    nodes = encoder.sentence_encoder.emb_layer_norm_after(nodes + 0.5 * vectors)
    words = encoder.lm_head.layer_norm(F.gelu(encoder.lm_head.dense(nodes)))
    torch.testing.assert_close(states.node_states[0], words)
    if feature == "feature:distance":
        places = states.layout.node_sources[0, ::3].tolist()
        gaps = [b - a for a, b in itertools.pairwise(places)]
        table, least = encoder.link_distance.weight.double(), [*range(1, 9), *LONG_DISTANCES]
        before, after = ([bisect.bisect(least, gap) - 1 for gap in side] for side in ([1, *gaps], [*gaps, 1]))
        nodes = torch.cat([nodes, (table[before] + table[16:][after]).repeat_interleave(3, 0)], 1)
    queries, keys = (
        layer(nodes).unflatten(-1, (model.args.encoder_attention_heads, -1)).transpose(0, 1)
        for layer in (encoder.query_linear, encoder.key_linear)
    )
    gates = encoder.gate_linear(nodes).softmax(-1).t()
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    edges = torch.tensor([[has_edge(graph, 3, v, u) for u in node.tolist()] for v in node.tolist()])
    heads = scores.masked_fill(~edges, -math.inf).softmax(-1).nan_to_num()
    torch.testing.assert_close(states.links[0].exp(), (gates[..., None] * heads).sum(0))


@pytest.mark.parametrize("J", [0, 1, -1])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("graph", GRAPHS)
def test_loss_with_state_embeddings_equals_enumeration_of_all_paths(graph, k, J):
    flags = {"ext_state_num": k, "state_graph": graph, "expand_from_layer": J}
    model = builders.exlm(WORDS, **flags, state_embedding_scale=20.0).double()
    loss, _, log = builders.criterion(WORDS)(model, builders.sample(WORDS, SENTENCES))
    expected = 0.0
    for tokens, targets in SENTENCES:
        states, _ = model(tokens[None], target=targets[None])
        links, layout = states.links[0].detach(), states.layout
        y, L = layout.targets[0], int(layout.node_lengths[0])
        encoder, node = model.encoder, torch.arange(L)
        scores = states.node_states[0] @ encoder.lm_head.weight.t() + encoder.lm_head.bias
        scores = scores + 10 * encoder.state_bias[node % k]
        torch.testing.assert_close(states.logits()[0], scores)
        match = scores.log_softmax(-1)[:, y].t().detach()  # [M, L]
        scored = oracles.path_scores(match, links, L, len(y))
        allowed = [
            math.exp(score)
            for score, path in scored
            if all(has_edge(graph, k, v, u) for v, u in itertools.pairwise(path))
        ]
        expected -= math.log(math.fsum(allowed)) / len(y)
    assert log["nonfinite"] == 0 and loss.item() == pytest.approx(expected, rel=1e-11)
    for gradient in torch.autograd.grad(loss, [model.encoder.state_embedding, model.encoder.state_bias]):
        assert (gradient.abs().sum(1) > 0).all()  # each state's vector is trained
