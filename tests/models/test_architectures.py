"""The named architectures: sizes, norm, dropout and states as the paper's tables 5, 7 and 10 have them."""

from fairseq.models import ARCH_MODEL_REGISTRY

from fs_plugins.models.mlm import RotaryRobertaModel
from tests.support import builders

# layers, heads, hidden size, feed-forward size
BASE, LARGE, SMILES, TINY = (12, 12, 768, 3072), (24, 16, 1024, 4096), (9, 12, 768, 2048), (2, 4, 128, 512)
PRE, POST = True, False
TABLE = {  # size, pre-norm, k
    "p_roberta": (BASE, POST, None),
    "p_roberta_base": (BASE, POST, None),
    "p_roberta_large": (LARGE, POST, None),
    "mlm_smiles": (SMILES, PRE, None),
    "mlm_tiny": (TINY, PRE, None),
    "p_roberta_ext_denselink": (BASE, POST, 4),
    "p_roberta_ext_denselink_base": (BASE, POST, 4),
    "p_roberta_ext_denselink_large": (LARGE, POST, 4),
    "p_roberta_ext_denselink_prenorm": (BASE, PRE, 4),
    "exlm_base": (BASE, PRE, 4),
    "exlm_large": (LARGE, PRE, 4),
    "exlm_smiles": (SMILES, PRE, 2),
    "exlm_tiny": (TINY, PRE, 4),
}


def test_architectures_are_the_papers_and_flags_win():
    ours = {name for name, model in ARCH_MODEL_REGISTRY.items() if issubclass(model, RotaryRobertaModel)}
    assert ours == set(TABLE)
    for arch, (size, pre_norm, k) in TABLE.items():
        args = builders.flags(arch)
        found = args.encoder_layers, args.encoder_attention_heads, args.encoder_embed_dim
        assert (*found, args.encoder_ffn_embed_dim) == size, arch
        assert (args.encoder_normalize_before, getattr(args, "ext_state_num", None)) == (pre_norm, k), arch
        assert (args.dropout, args.attention_dropout, args.activation_dropout) == (0.1, 0.1, 0.0)
        assert args.activation_fn == "gelu" and args.pooler_dropout == 0.0
        args = builders.flags(arch, encoder_normalize_before=True, dropout=0.0, attention_dropout=0.3)
        assert args.encoder_normalize_before and (args.dropout, args.attention_dropout) == (0.0, 0.3)
