"""The ExLM model: sizes, checkpoints, errors; test_parity.py and test_state_graphs.py have its graph."""

import pytest
import torch

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


def test_parameter_counts_of_the_paper(on_meta):
    symbols = builders.dictionary(50_265 - 5)
    for arch in ("exlm", "p_roberta_ext_denselink"):
        for size, count in {"base": 128_255_589, "large": 361_213_033}.items():
            assert total(on_meta(f"{arch}_{size}", symbols, max_positions=2048)) == count
    symbols = builders.dictionary(369 - 5)
    model = on_meta("exlm_smiles", symbols)
    transitions = ("link_positional", "query_linear", "key_linear", "gate_linear")
    rest = [p.numel() for name, p in model.named_parameters() if name.split(".")[1] not in transitions]
    assert sum(rest) == total(on_meta("mlm_smiles", symbols)) == 50_503_281


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"dictionary": 30}, "35 .* 25"),
        ({"max_positions": 512}, "514 .* 258: .*--max-positions"),
        ({"ext_state_num": 2}, "2 .* 4: .*--ext-state-num"),
    ],
)
def test_checkpoint_of_other_sizes_is_refused(flags, named):
    symbols = builders.dictionary(flags.get("dictionary", 20))
    flags = {name: value for name, value in flags.items() if name != "dictionary"}
    state = builders.exlm(symbols, state_embedding_scale=1.0, **flags).state_dict()
    with pytest.raises(ValueError, match=named):
        builders.exlm(WORDS, state_embedding_scale=1.0).load_state_dict(state)
    plain = builders.exlm(WORDS, ext_state_num=4)
    builders.exlm(WORDS, ext_state_num=2).load_state_dict(plain.state_dict(), strict=True)  # of another k


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"ext_state_num": 0}, "--ext-state-num 0"),
        ({"encoder_attention_heads": 16}, "4 .* 2"),  # RoPE in two dimensions
        ({"encoder_attention_heads": 5}, "32 .*--encoder-attention-heads 5"),
        ({"links_feature": "feature:sinus"}, "--links-feature 'feature:sinus'"),
        ({"max_transition_length": 6}, "--max-transition-length 6 .* 7"),
        ({"state_graph": "local", "max_transition_length": 9}, "--max-transition-length 9"),
        ({"state_embedding_scale": -1.0}, "--state-embedding-scale -1.0"),
        ({"repeat_times": 2}, "--repeat-times 2"),
        ({"expand_from_layer": -2}, "--expand-from-layer -2"),
        ({"expand_from_layer": 3}, "--expand-from-layer 3.* 2"),
    ],
)
def test_bad_flags(flags, named):
    with pytest.raises(ValueError, match=named):
        builders.exlm(WORDS, **flags)


def test_expansion_beyond_max_positions():
    model = builders.exlm(WORDS, max_positions=40)
    tokens, targets = builders.sentence(WORDS, 20, [1, 2, 3, 4])
    model(tokens[None], target=targets[None])  # 22 + 6 * 3 = 40 fit
    tokens, targets = builders.sentence(WORDS, 20, [1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="43 .*--max-positions 40: --max-positions 43 .*--max-positions 92"):
        model(tokens[None], target=targets[None])
    model(tokens[None], target=targets[None], features_only=True)  # transitions alone need the positions
