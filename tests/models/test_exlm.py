"""ExLM: sizes, checkpoints, errors, token heads; test_parity.py and test_state_graphs.py have its graph."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode

from tests.support import builders

WORDS = builders.dictionary(20)


def sizes(arch, symbols, **flags) -> dict[str, int]:
    """Of each parameter of a model for which there is no memory."""
    with FakeTensorMode():
        model = builders.model(arch, symbols, **flags)
    return {name: parameter.numel() for name, parameter in model.named_parameters()}


def test_parameter_counts_of_the_paper():
    symbols = builders.dictionary(50_265 - 5)
    for arch in ("exlm", "p_roberta_ext_denselink"):
        for size, count in {"base": 128_255_589, "large": 361_213_033}.items():
            assert sum(sizes(f"{arch}_{size}", symbols, max_positions=2048).values()) == count
    exlm, mlm = (sizes(f"{kind}_smiles", builders.dictionary(369 - 5)) for kind in ("exlm", "mlm"))
    transitions = ("link_positional", "query_linear", "key_linear", "gate_linear")
    rest = [size for name, size in exlm.items() if name.split(".")[1] not in transitions]
    assert sum(rest) == sum(mlm.values()) == 50_503_281


def test_a_checkpoint_of_another_k_is_loaded():
    plain = builders.exlm(WORDS, ext_state_num=4)
    builders.exlm(WORDS, ext_state_num=2).load_state_dict(plain.state_dict(), strict=True)


def test_flags_of_fairseq():
    assert builders.exlm(WORDS, checkpoint_activations=True).encoder.sentence_encoder.gradient_checkpointing
    with pytest.raises(ValueError, match="--repeat-times 2"):
        builders.exlm(WORDS, repeat_times=2)


def test_expansion_beyond_max_positions():
    model = builders.exlm(WORDS, max_positions=40)
    tokens, targets = builders.sentence(WORDS, 20, [1, 2, 3, 4])
    model(tokens[None], target=targets[None])  # 22 + 6 * 3 = 40 fit
    tokens, targets = builders.sentence(WORDS, 20, [1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="43 .*--max-positions 40: --max-positions 43 .*--max-positions 92"):
        model(tokens[None], target=targets[None])
    model(tokens[None], target=targets[None], features_only=True)  # transitions alone need the positions


def make(arch, **options):
    model = builders.model(arch, WORDS, **{**builders.SMALL, **options})
    model.register_token_head("span", 2)
    return model.eval()


def test_pooler_dropout_stands_before_the_head():
    model = make("exlm_base", pooler_dropout=0.4).train()  # the encoder has no dropout
    tokens = torch.tensor([[0, 5, 6, 7, 2, 2, 8, 9, 2]])
    features = model.features(tokens)
    torch.manual_seed(3)
    expected = model.token_heads["span"].out_proj(F.dropout(features, 0.4))
    torch.manual_seed(3)
    torch.testing.assert_close(model(tokens, token_head_name="span")[0], expected)


def test_loading_restores_heads_and_leaves_out_unknown_ones(caplog):
    tuned = make("exlm_base", seed=1)
    for again in (make("exlm_base", seed=2), builders.exlm(WORDS, load_checkpoint_heads=True)):
        again.load_state_dict(tuned.state_dict(), strict=True)
        found, expected = (model.token_heads["span"].out_proj.weight for model in (again, tuned))
        assert torch.equal(found, expected)
    builders.exlm(WORDS).load_state_dict(tuned.state_dict(), strict=True)
    assert "token_heads.span.out_proj.weight" in caplog.text
