"""The named architectures: norm, states and what flags change; sizes are in test_exlm.py, test_configs.py and
tests/scripts/lib/run/test_pretraining.py."""

from fairseq.models import ARCH_MODEL_REGISTRY

from fs_plugins.models.mlm import RotaryRobertaModel
from tests.support import builders

POST = ["", "_base", "_large"]
NAMES = [f"{model}{size}" for model in ("p_roberta", "p_roberta_ext_denselink") for size in POST]
NAMES += ["p_roberta_ext_denselink_prenorm", "mlm_smiles", "mlm_tiny"]
NAMES += [f"exlm_{size}" for size in ("base", "large", "smiles", "tiny")]


def test_norms_and_states_are_the_papers_and_flags_win():
    ours = {name for name, model in ARCH_MODEL_REGISTRY.items() if issubclass(model, RotaryRobertaModel)}
    assert ours == set(NAMES)
    for arch in NAMES:
        k = (2 if arch.endswith("smiles") else 4) if "ext" in arch or "exlm" in arch else None
        args, pre_norm = builders.flags(arch), arch.endswith("prenorm") or not arch.startswith("p_roberta")
        assert (args.encoder_normalize_before, getattr(args, "ext_state_num", None)) == (pre_norm, k), arch
        args = builders.flags(arch, encoder_normalize_before=True, dropout=0.0, attention_dropout=0.3)
        assert args.encoder_normalize_before and (args.dropout, args.attention_dropout) == (0.0, 0.3)
