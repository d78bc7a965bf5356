"""--expand-from-layer J: the first J layers see each token to expand once."""

import pytest
import torch

from tests.support import builders

WORDS = builders.dictionary(20)
LAYERS, K = 3, 3
SENTENCES = [  # of different lengths, one cut off before its </s>
    builders.sentence(WORDS, 7, [2, 3, 6]),
    builders.sentence(WORDS, 4, [1], seed=1, end=False),
    builders.sentence(WORDS, 5, [1, 2, 3, 4, 5], seed=2),
]


def exlm(J, **flags):
    return builders.exlm(WORDS, encoder_layers=LAYERS, ext_state_num=K, expand_from_layer=J, **flags)


def by_hand(model, tokens, targets, J):
    """(features [N, d], nodes [L]) of one sentence: J layers over its tokens, copies, the other layers."""
    encoder = model.encoder.sentence_encoder
    if tokens[-1] != WORDS.eos():
        tokens = torch.cat([tokens, torch.tensor([WORDS.eos()])])
        targets = torch.cat([targets, torch.tensor([WORDS.pad()])])
    expanded = (targets != WORDS.pad()) | (tokens == WORDS.bos()) | (tokens == WORDS.eos())
    once = [(i, 0) for i in range(len(tokens))]
    copies = [
        (i, c) for i, is_expanded in enumerate(expanded) for c in (range(1, K + 1) if is_expanded else [0])
    ]
    two_dimensional = len(encoder.rot_emb.inv_freq) == 2  # heads of 8
    x, stages = encoder.embed_tokens(tokens[None]), [(once, encoder.layers[:J]), (copies, encoder.layers[J:])]
    for coordinates, layers in stages:
        if coordinates is not once:
            x = x.repeat_interleave(torch.where(expanded, K, 1), dim=1)
        if not two_dimensional:
            coordinates = [[n] for n in range(len(coordinates))]
        rotation = encoder.rot_emb.tables(torch.tensor([list(coordinates)]), x.dtype)
        for layer in layers:
            x = layer(x, rotation, None)
    return encoder.emb_layer_norm_after(x)[0], torch.tensor([c > 0 for _, c in copies]).nonzero()[:, 0]


VARIANTS = {"pre-norm": {}, "post-norm": {"encoder_normalize_before": False}}
VARIANTS |= {"1d-rope": {"rope_dimensions": 1}, "checkpointing": {"checkpoint_activations": True}}
VARIANTS |= {"state-embeddings": {"state_embedding_scale": 10.0}}


@pytest.mark.parametrize("J", range(LAYERS + 1))
@pytest.mark.parametrize("flags", VARIANTS.values(), ids=VARIANTS)
def test_equals_the_first_layers_on_tokens_and_the_others_on_their_copies(J, flags):
    """Features, graph and gradients in float64, of a padded batch; by hand each sentence alone."""
    flags = {"encoder_normalize_before": True, **flags}
    model = exlm(J, arch="p_roberta_ext_denselink_base", **flags).double().train()
    batch = builders.sample(WORDS, SENTENCES)
    tokens, target = batch["net_input"]["src_tokens"], batch["target"]
    features, extra = model.encoder(tokens, target=target, features_only=True)
    graph, _ = model.encoder(tokens, target=target)
    loss, expected_loss = graph.node_states.square().sum(), 0.0
    for b, sentence in enumerate(SENTENCES):
        expected, nodes = by_hand(model, *sentence, J)
        assert (extra["layout"].tokens[b] != WORDS.pad()).sum() == len(expected)
        torch.testing.assert_close(features[b, : len(expected)], expected)
        by_state = expected[nodes]
        if model.encoder.state_embedding is not None:
            by_state = by_state + model.encoder.state_embedding[torch.arange(len(nodes)) % K]
        states = model.encoder.lm_head.transform(by_state)
        torch.testing.assert_close(graph.node_states[b, : len(nodes)], states)
        if len(nodes) < graph.node_states.shape[1]:
            loss = loss - graph.node_states[b, len(nodes) :].square().sum()
        expected_loss = expected_loss + states.square().sum()
    parameters = list(model.encoder.sentence_encoder.parameters())
    parameters += [] if model.encoder.state_embedding is None else [model.encoder.state_embedding]
    actual, wanted = (torch.autograd.grad(x, parameters) for x in (loss, expected_loss))
    for a, b in zip(actual, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)
