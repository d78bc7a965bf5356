"""The named architectures: norm, states, initial weights and what flags change; sizes are in test_exlm.py,
test_configs.py and tests/scripts/lib/run/test_pretraining.py."""

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY

from fs_plugins.models.mlm import RotaryRobertaModel
from tests.support import builders


def test_norms_and_states_are_the_papers_and_flags_win():
    ours = [name for name, model in ARCH_MODEL_REGISTRY.items() if issubclass(model, RotaryRobertaModel)]
    assert len(ours) > 10
    for arch in ours:
        k = (2 if arch.endswith("smiles") else 4) if "ext" in arch or "exlm" in arch else None
        args, pre_norm = builders.flags(arch), arch.endswith("prenorm") or not arch.startswith("p_roberta")
        assert (args.encoder_normalize_before, getattr(args, "ext_state_num", None)) == (pre_norm, k), arch
        args = builders.flags(arch, encoder_normalize_before=True, dropout=0.0, attention_dropout=0.3)
        assert args.encoder_normalize_before and (args.dropout, args.attention_dropout) == (0.0, 0.3)


STDS = [("exlm_base", builders.SMALL, 0.02), ("mlm_tiny", {}, 0.2)]
STDS += [("exlm_tiny", {"embedding_init_std": 0.5}, 0.5)]


@pytest.mark.parametrize(("arch", "flags", "std"), STDS)
def test_initial_weights(arch, flags, std):
    symbols = builders.dictionary(2000)
    encoder = builders.model(arch, symbols, **flags).encoder
    weight = encoder.sentence_encoder.embed_tokens.weight
    assert weight.std().item() == pytest.approx(std, rel=0.05)
    assert not weight[symbols.pad()].any() and encoder.lm_head.weight is weight
    assert encoder.sentence_encoder.layers[0].fc1.weight.std().item() == pytest.approx(0.02, rel=0.1)
