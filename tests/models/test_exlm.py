"""The ExLM model: sizes, graphs, checkpoints, heads, errors."""

import argparse
import math

import pytest
import torch
from fairseq.models import build_model

from fs_plugins.modules.transition_head import edge_mask
from tests import builders

WORDS = builders.dictionary(20)


def total(model) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.fixture
def on_meta(monkeypatch):
    """Builds models without memory: nothing is there to be initialised."""
    for module in ("fairseq.models.roberta.model", "fs_plugins.models.exlm"):
        monkeypatch.setattr(f"{module}.init_bert_params", lambda _: None)

    def build(arch, symbols, **overrides):
        with torch.device("meta"):
            return builders.model(arch, symbols, **overrides)

    return build


@pytest.mark.parametrize(
    ("arch", "count"),
    [
        ("exlm_base", 128_255_589),
        ("p_roberta_ext_denselink_base", 128_255_589),
        ("exlm_large", 361_213_033),
        ("p_roberta_ext_denselink_large", 361_213_033),
    ],
)
def test_parameter_counts_of_the_paper(on_meta, arch, count):
    symbols = builders.dictionary(50_265 - 5)
    assert len(symbols) == 50_265
    assert total(on_meta(arch, symbols, max_positions=2048)) == count


def test_parameter_count_of_the_smiles_encoder(on_meta):
    symbols = builders.dictionary(369 - 5)
    model = on_meta("exlm_smiles", symbols)
    transitions = ("link_positional", "query_linear", "key_linear", "gate_linear")
    rest = [p.numel() for name, p in model.named_parameters() if name.split(".")[1] not in transitions]
    assert sum(rest) == 50_503_281
    assert total(on_meta("mlm_smiles", symbols)) == 50_503_281
    assert model.encoder.k == 2


def test_state_dict_has_the_published_layout():
    names = set(builders.exlm(WORDS, encoder_layers=1).state_dict())
    layer = "encoder.sentence_encoder.layers.0."
    linear = [f"{layer}self_attn.{p}_proj" for p in ("q", "k", "v", "out")]
    linear += [layer + n for n in ("self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")]
    linear += [
        "encoder.sentence_encoder.emb_layer_norm_after",
        "encoder.lm_head.dense",
        "encoder.lm_head.layer_norm",
    ]
    linear += [f"encoder.{n}_linear" for n in ("query", "key", "gate")]
    expected = {f"{name}.{part}" for name in linear for part in ("weight", "bias")}
    expected |= {"encoder.sentence_encoder.version", "encoder.sentence_encoder.embed_tokens.weight"}
    expected |= {layer + "self_attn.rot_emb.inv_freq", "encoder.link_positional.weight"}
    assert names == expected | {"encoder.lm_head.weight", "encoder.lm_head.bias"}


def test_graph_is_what_the_paper_defines():
    """Features at the nodes, LM head on them, and E from [state ; position in the expanded sequence]."""
    model = builders.exlm(WORDS, ext_state_num=3)
    batch = builders.sample(WORDS, [builders.sentence(WORDS, 6, [2, 5]), builders.sentence(WORDS, 3, [1])])
    arguments = {**batch["net_input"], "target": batch["target"]}
    graph, extra = model(**arguments)
    features, _ = model(**arguments, features_only=True)
    layout, encoder = extra["layout"], model.encoder
    b, n = 1, int(layout.node_lengths[1])
    assert n == 9 and graph.node_states.shape == (2, 12, 32)
    at = layout.node_positions[b, :n]
    assert at.tolist() == [0, 1, 2, 3, 4, 5, 8, 9, 10]
    nodes = features[b, at]
    expected_logits = encoder.lm_head(nodes)
    torch.testing.assert_close(graph.logits()[b, :n], expected_logits)
    x = torch.cat([nodes, encoder.link_positional.weight[at + 2]], dim=-1)  # rows from pad + 1 = 2 on
    q, k = (f(x).unflatten(-1, (4, 8)) for f in (encoder.query_linear, encoder.key_linear))
    scores = torch.einsum("vhc,uhc->hvu", q, k) / math.sqrt(8)
    edges = edge_mask(torch.tensor([n]), n)[0]
    p = scores.masked_fill(~edges, -1e30).softmax(-1)  # [H, n, n]
    gates = encoder.gate_linear(x).softmax(-1).t()
    expected = (p * gates[:, :, None]).sum(0)[edges].log()
    torch.testing.assert_close(graph.links[b, :n, :n][edges], expected)
    assert (graph.links[b, :, n:] == -math.inf).all()


def test_without_targets_the_mask_tokens_are_expanded():
    model = builders.exlm(WORDS)
    tokens, targets = builders.sentence(WORDS, 6, [2, 5])
    with_targets, _ = model(tokens[None], target=targets[None])
    without, _ = model(tokens[None])
    torch.testing.assert_close(without.links, with_targets.links)
    torch.testing.assert_close(without.logits(), with_targets.logits())
    assert without.logits().shape == (1, 16, len(WORDS))


def test_vocabulary_is_computed_at_the_nodes_only():
    model = builders.exlm(WORDS)
    rows = []
    model.encoder.lm_head.dense.register_forward_hook(lambda _, inputs, __: rows.append(inputs[0].shape))
    tokens, targets = builders.sentence(WORDS, 40, [3])
    model(tokens[None], target=targets[None])
    assert rows == [(1, 12, 32)]


def test_classification_head_reads_the_first_state():
    model = builders.exlm(WORDS)
    model.register_classification_head("h", num_classes=3)
    tokens = torch.stack([builders.sentence(WORDS, 5, [], seed=s)[0] for s in (1, 2)])
    features, _ = model(tokens, features_only=True)
    assert features.shape[1] == 5 + 2 * 4
    logits, _ = model(tokens, classification_head_name="h")
    torch.testing.assert_close(logits, model.classification_heads["h"](features[:, :1]))


def test_checkpoint_of_another_k_is_accepted():
    model = builders.exlm(WORDS, ext_state_num=2)
    model.load_state_dict(builders.exlm(WORDS, ext_state_num=4, seed=1).state_dict(), strict=True)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"dictionary": 30}, r"has 35 dictionary entries .*this model 25: use the dict.txt"),
        ({"max_positions": 512}, r"has 514 position rows .*this model 258: pass the --max-positions"),
        ({"ext_state_num": 2}, "has 2 state embeddings, this model 4: pass the --ext-state-num"),
    ],
)
def test_checkpoint_of_other_sizes_is_refused(flags, says):
    symbols = builders.dictionary(flags.pop("dictionary", 20))
    state = builders.exlm(symbols, state_embedding_scale=1.0, **flags).state_dict()
    with pytest.raises(ValueError, match=says):
        builders.exlm(WORDS, state_embedding_scale=1.0).load_state_dict(state)


@pytest.mark.parametrize("features", ["feature", "position", "position:feature"])
def test_links_features(features):
    model = builders.exlm(WORDS, links_feature=features)
    tokens, targets = builders.sentence(WORDS, 5, [2])
    graph, _ = model(tokens[None], target=targets[None])
    assert model.encoder.query_linear.in_features == 32 * len(features.split(":"))
    assert hasattr(model.encoder, "link_positional") == ("position" in features)
    torch.testing.assert_close(graph.links.exp().sum(-1)[0, :-1], torch.ones(11))


def test_transitions_are_no_longer_than_allowed():
    tokens, targets = builders.sentence(WORDS, 6, [2, 4])
    for longest, flags in ((5, {"max_transition_length": 5}), (11, {})):  # of 4 * 3 nodes
        graph, _ = builders.exlm(WORDS, ext_state_num=3, **flags)(tokens[None], target=targets[None])
        expected = [(v, u) for v in range(12) for u in range(v + 1, min(12, v + longest + 1))]
        assert [tuple(edge) for edge in graph.links[0].isfinite().nonzero().tolist()] == expected


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"ext_state_num": 0}, "--ext-state-num must be at least 1 state per masked token, got 0"),
        ({"encoder_attention_heads": 16}, "divisible by 4 for 2D RoPE, got 2"),
        ({"encoder_attention_heads": 5}, "32 is not divisible by --encoder-attention-heads 5"),
        ({"links_feature": "feature:sinus"}, "unknown --links-feature 'feature:sinus'.*feature and position"),
        ({"max_transition_length": 6}, "--max-transition-length 6 .* k = 4 it must be at least 7"),
        ({"state_graph": "local", "max_transition_length": 9}, "--max-transition-length 9: .* of their own"),
        ({"state_embedding_scale": -1.0}, "--state-embedding-scale must be .* 0 .* or more, got -1.0"),
        ({"repeat_times": 2}, "--repeat-times 2: ExLM expands masked tokens itself"),
    ],
)
def test_bad_flags(flags, says):
    with pytest.raises(ValueError, match=says):
        builders.exlm(WORDS, **flags)


def test_expansion_beyond_max_positions():
    model = builders.exlm(WORDS, max_positions=40)
    tokens, targets = builders.sentence(WORDS, 20, [1, 2, 3, 4])

    model(tokens[None], target=targets[None])  # 22 + 6 * 3 = 40 fit
    tokens, targets = builders.sentence(WORDS, 20, [1, 2, 3, 4, 5])
    says = (
        r"22 tokens is 43 long .*--max-positions 40: --max-positions 43 would do .*--max-positions 92 for any"
    )
    with pytest.raises(ValueError, match=says):
        model(tokens[None], target=targets[None])
    model(tokens[None], target=targets[None], features_only=True)  # transitions alone need the positions


def test_masked_lm_criterion_is_refused():
    tokens, targets = builders.sentence(WORDS, 5, [2])
    with pytest.raises(ValueError, match="--criterion nat_dag_loss_mlm"):
        builders.exlm(WORDS)(tokens[None], masked_tokens=targets[None].ne(1))


def test_a_checkpoint_of_the_release_knows_none_of_our_flags():
    complete = builders.exlm(WORDS)
    ours = ("embedding_init_std", "rope_dimensions", "expand_from_layer")
    ours += ("state_graph", "state_embedding_scale")
    flags = {name: value for name, value in vars(complete.args).items() if name not in ours}
    assert len(flags) == len(vars(complete.args)) - len(ours)
    model = build_model(argparse.Namespace(**flags), builders.task(WORDS))
    assert {name: getattr(model.args, name) for name in ours} == {
        name: getattr(complete.args, name) for name in ours
    }


def test_without_2d_rope_the_copies_are_told_apart_by_their_index():
    one, two = builders.exlm(WORDS, rope_dimensions=1), builders.exlm(WORDS)
    tokens, targets = (row[None] for row in builders.sentence(WORDS, 6, (2, 5)))
    graphs = [model(tokens, target=targets)[0] for model in (one, two)]
    layout = graphs[0].layout
    assert one.encoder._coordinates(layout)[0, :, 0].tolist() == list(range(layout.tokens.shape[1]))
    both = two.encoder._coordinates(layout)
    assert torch.equal(both[..., 0], layout.positions) and torch.equal(both[..., 1], layout.copies)
    assert not torch.allclose(*(graph.node_states for graph in graphs))


def test_the_mlm_gives_logits_of_masked_tokens_only():
    model = builders.model("p_roberta_base", WORDS, **builders.SMALL)
    batch = builders.sample(WORDS, [builders.sentence(WORDS, 6, [2, 5]), builders.sentence(WORDS, 3, [1])])
    tokens, masked = batch["net_input"]["src_tokens"], batch["target"].ne(WORDS.pad())
    everywhere, _ = model(tokens)
    assert everywhere.shape == (2, 8, len(WORDS))
    torch.testing.assert_close(model(tokens, masked_tokens=masked)[0], everywhere[masked])
