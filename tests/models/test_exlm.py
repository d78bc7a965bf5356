"""The ExLM model: sizes, graphs, checkpoints, heads, errors."""

import math

import pytest
import torch

from fs_plugins.modules.transition_head import edge_mask
from tests.support import builders

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


def test_vocabulary_is_computed_at_the_nodes_only():
    model = builders.exlm(WORDS)
    rows = []
    model.encoder.lm_head.dense.register_forward_hook(lambda _, inputs, __: rows.append(inputs[0].shape))
    tokens, targets = builders.sentence(WORDS, 40, [3])
    model(tokens[None], target=targets[None])
    assert rows == [(1, 12, 32)]


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


def test_transitions_are_no_longer_than_allowed():
    tokens, targets = builders.sentence(WORDS, 6, [2, 4])
    for longest, flags in ((5, {"max_transition_length": 5}), (11, {})):  # of 4 * 3 nodes
        graph, _ = builders.exlm(WORDS, ext_state_num=3, **flags)(tokens[None], target=targets[None])
        expected = [(v, u) for v in range(12) for u in range(v + 1, min(12, v + longest + 1))]
        assert [tuple(edge) for edge in graph.links[0].isfinite().nonzero().tolist()] == expected


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"ext_state_num": 0}, "--ext-state-num 0: .* from 1"),
        ({"encoder_attention_heads": 16}, "divisible by 4 for 2D RoPE, got 2"),
        ({"encoder_attention_heads": 5}, "32 is not divisible by --encoder-attention-heads 5"),
        ({"links_feature": "feature:sinus"}, "--links-feature 'feature:sinus'"),
        ({"max_transition_length": 6}, "--max-transition-length 6 .* k = 4 it must be at least 7"),
        ({"state_graph": "local", "max_transition_length": 9}, "--max-transition-length 9: .* of their own"),
        ({"state_embedding_scale": -1.0}, "--state-embedding-scale -1.0"),
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
