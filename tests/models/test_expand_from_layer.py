"""--expand-from-layer J: the first J layers see each token to expand once."""

import pytest
import torch

from fs_plugins.criterions.nat_ctc_loss_mlm import NatCtcLossMLM
from fs_plugins.modules.state_expansion import gather_tokens
from tests import builders

WORDS = builders.dictionary(20)
LAYERS, K = 3, 3
SENTENCES = [  # of different lengths, one cut off before its </s>
    builders.sentence(WORDS, 7, [2, 3, 6]),
    builders.sentence(WORDS, 4, [1], seed=1, end=False),
    builders.sentence(WORDS, 5, [1, 2, 3, 4, 5], seed=2),
]


def exlm(J, **flags):
    return builders.exlm(WORDS, encoder_layers=LAYERS, ext_state_num=K, expand_from_layer=J, **flags)


def plain_mlm(model):
    """A vanilla MLM with the weights that ExLM's encoder has."""
    flags = {**builders.SMALL, "encoder_layers": LAYERS}
    flags["encoder_normalize_before"] = model.args.encoder_normalize_before
    mlm = builders.model("p_roberta_base", WORDS, **flags)
    weights = mlm.state_dict()
    mlm.load_state_dict({name: model.state_dict()[name] for name in weights})
    return mlm


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
    added = torch.tensor(0.0)
    if model.encoder.state_embedding is not None:
        table = torch.cat(
            [torch.zeros_like(model.encoder.state_embedding[:1]), model.encoder.state_embedding]
        )
        added = table[torch.tensor([c for _, c in copies])]
    x, stages = encoder.embed_tokens(tokens[None]), [(once, encoder.layers[:J]), (copies, encoder.layers[J:])]
    for coordinates, layers in stages:
        if coordinates is not once:
            x = x.repeat_interleave(torch.where(expanded, K, 1), dim=1) + added
        if not two_dimensional:
            coordinates = [[n] for n in range(len(coordinates))]
        rotation = encoder.rot_emb.tables(torch.tensor([list(coordinates)]), x.dtype)
        for layer in layers:
            x = layer(x, rotation, None)
    return encoder.emb_layer_norm_after(x)[0], torch.tensor([c > 0 for _, c in copies]).nonzero()[:, 0]


@pytest.mark.parametrize("J", range(LAYERS + 1))
@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"encoder_normalize_before": False},
        {"rope_dimensions": 1},
        {"checkpoint_activations": True},
        {"state_embedding_scale": 10.0},
        {"state_embedding_scale": 10.0, "rope_dimensions": 1},
    ],
    ids=["pre-norm", "post-norm", "1d-rope", "checkpointing", "state-embeddings", "state-embeddings-1d-rope"],
)
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
        states = model.encoder.lm_head.transform(expected[nodes])
        torch.testing.assert_close(graph.node_states[b, : len(nodes)], states)
        if len(nodes) < graph.node_states.shape[1]:
            loss = loss - graph.node_states[b, len(nodes) :].square().sum()
        expected_loss = expected_loss + states.square().sum()
    parameters = list(model.encoder.sentence_encoder.parameters())
    parameters += [] if model.encoder.state_embedding is None else [model.encoder.state_embedding]
    actual, wanted = (torch.autograd.grad(x, parameters) for x in (loss, expected_loss))
    for a, b in zip(actual, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


def test_default_is_the_papers_bit_for_bit():
    model = exlm(0)
    tokens, targets = SENTENCES[0]
    features, _ = model.encoder(tokens[None], target=targets[None], features_only=True)
    assert torch.equal(features[0], by_hand(model, tokens, targets, 0)[0])
    default = builders.exlm(WORDS, encoder_layers=LAYERS, ext_state_num=K)
    assert torch.equal(default.encoder(tokens[None], target=targets[None], features_only=True)[0], features)


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("J", range(1, LAYERS + 1))
def test_without_masks_the_first_layers_are_the_vanilla_mlms(J, pre_norm):
    model = exlm(J, arch="p_roberta_ext_denselink_base", encoder_normalize_before=pre_norm)
    tokens = torch.stack([builders.sentence(WORDS, 6, [], seed=seed)[0] for seed in (3, 4)])
    with torch.no_grad():
        features, extra = model.encoder(tokens, features_only=True, return_all_hiddens=True)
        wanted, plain = plain_mlm(model).encoder(tokens, features_only=True, return_all_hiddens=True)
    layout = extra["layout"]
    assert len(extra["inner_states"]) == LAYERS + 1
    for n in range(J + 1):
        copied = extra["inner_states"][n].transpose(0, 1)  # [B, N, d]
        expected = plain["inner_states"][n].transpose(0, 1)
        assert copied.shape == features.shape
        torch.testing.assert_close(gather_tokens(copied, layout.first_states), expected, rtol=1e-5, atol=1e-5)
    if J == LAYERS:
        torch.testing.assert_close(gather_tokens(features, layout.first_states), wanted, rtol=1e-5, atol=1e-5)
    else:
        assert not torch.allclose(gather_tokens(features, layout.first_states), wanted, atol=1e-3)


def test_only_layers_after_the_expansion_tell_states_apart():
    """With J = all layers the states of a token say the same words; only their transitions differ."""
    tokens, targets = (x[None] for x in SENTENCES[0])
    for J in range(LAYERS + 1):
        graph, _ = exlm(J).encoder(tokens, target=targets)
        states = graph.node_states[0].unflatten(0, (-1, K))  # [M, K, d]
        assert torch.equal(states[:, 1:], states[:, :1].expand_as(states[:, 1:])) == (J == LAYERS)
        rows = graph.links[0, :-1].exp()
        torch.testing.assert_close(rows.sum(-1), torch.ones(len(rows)))
        assert not torch.allclose(rows[0, K:], rows[1, K:], atol=1e-4)


@pytest.mark.parametrize("J", [1, LAYERS])
@pytest.mark.parametrize(
    ("criterion", "flags"),
    [
        (builders.criterion, {}),
        (builders.criterion, {"state_graph": "sparse"}),
        (lambda words: NatCtcLossMLM(builders.task(words)), {}),
    ],
    ids=["dag", "sparse", "ctc"],
)
def test_losses_do_not_depend_on_padding(J, criterion, flags):
    model, loss_of = exlm(J, **flags), criterion(WORDS)
    together, _, log = loss_of(model, builders.sample(WORDS, SENTENCES))
    alone = [loss_of(model, builders.sample(WORDS, [sentence]))[0] for sentence in SENTENCES]
    assert log["nonfinite"] == 0
    torch.testing.assert_close(together, sum(alone), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("J", [1, LAYERS])
def test_layer_drop(J):
    """Layers that are left out move no other layer to the other side of the expansion."""
    model = exlm(J, encoder_layerdrop=0.5).train()
    encoder = model.encoder.sentence_encoder
    seen = {}
    for n, layer in enumerate(encoder.layers._modules.values()):
        layer.register_forward_hook(lambda _, args, __, n=n: seen.setdefault(n, set()).add(args[0].shape[1]))
    tokens, targets = (x[None] for x in SENTENCES[0])
    torch.manual_seed(0)
    for _ in range(20):
        assert model.encoder(tokens, target=targets)[0].node_states.shape[1] == 5 * K
    expanded = 9 + 5 * (K - 1)
    assert seen == {n: {9 if n < J else expanded} for n in range(LAYERS)}


@pytest.mark.parametrize("J", [1, LAYERS])
def test_heads_read_what_the_features_say(J):
    model = exlm(J)
    model.register_classification_head("task", num_classes=2)
    model.register_token_head("span", 2)
    tokens = builders.sample(WORDS, [builders.sentence(WORDS, n, [], seed=n) for n in (6, 3)])["net_input"][
        "src_tokens"
    ]
    with torch.no_grad():
        features, extra = model.encoder(tokens, features_only=True)
        scores, _ = model(tokens, features_only=True, classification_head_name="task")
        spans, _ = model(tokens, token_head_name="span")
    torch.testing.assert_close(scores, model.classification_heads["task"](features), rtol=1e-5, atol=1e-5)
    tokens_features = gather_tokens(features, extra["layout"].first_states)
    torch.testing.assert_close(spans, model.token_heads["span"](tokens_features))


def test_minus_one_is_after_all_layers():
    assert exlm(-1).encoder.expand_from_layer == LAYERS


@pytest.mark.parametrize("J", [-2, LAYERS + 1])
def test_layers_that_are_not_there(J):
    with pytest.raises(ValueError, match=rf"--expand-from-layer {J}: .* from 0 .* to --encoder-layers 3"):
        exlm(J)


def test_layers_that_were_left_out():
    with pytest.raises(ValueError, match="--expand-from-layer 3: .* to --encoder-layers 2"):
        exlm(3, encoder_layers_to_keep="0,1")
