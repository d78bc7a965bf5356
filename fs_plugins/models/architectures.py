"""Named sizes of the models: the paper's (appendix N, tables 7 and 10) and a tiny one to try things with."""

from functools import partial

from fairseq.models import register_model_architecture
from fairseq.models.roberta.model import base_architecture as roberta_defaults

from fs_plugins.models import exlm, mlm  # noqa: F401  (registers the models of the names below)
from fs_plugins.models.flags import EXLM_FLAGS, MLM_FLAGS, defaults_of, set_defaults

# encoder layers, hidden size, feed-forward size, attention heads
BASE = (12, 768, 3072, 12)
LARGE = (24, 1024, 4096, 16)
SMILES = (9, 768, 2048, 12)
TINY = (2, 128, 512, 4)


# name -> its model, size, whether it is pre-norm, other defaults. Embeddings of the tiny ones are as large as
# what the layers add to them: at 0.02, with no norm after the embedding, words drown in it, and a small model
# takes thousands of updates to notice its context.
MLM, EXLM = "p_roberta", "p_roberta_ext_denselink"
ARCHITECTURES = {
    "p_roberta": (MLM, BASE, False, {}),
    "p_roberta_base": (MLM, BASE, False, {}),
    "p_roberta_large": (MLM, LARGE, False, {}),
    "mlm_smiles": (MLM, SMILES, True, {}),
    "mlm_tiny": (MLM, TINY, True, {"embedding_init_std": 0.2}),
    "p_roberta_ext_denselink": (EXLM, BASE, False, {}),
    "p_roberta_ext_denselink_base": (EXLM, BASE, False, {}),
    "p_roberta_ext_denselink_large": (EXLM, LARGE, False, {}),
    "p_roberta_ext_denselink_prenorm": (EXLM, BASE, True, {}),
    "exlm_base": (EXLM, BASE, True, {}),
    "exlm_large": (EXLM, LARGE, True, {}),
    "exlm_smiles": (EXLM, SMILES, True, {"ext_state_num": 2}),
    "exlm_tiny": (EXLM, TINY, True, {"embedding_init_std": 0.2}),
}


def complete(architecture: tuple, args) -> None:
    """Sets everything that the flags leave open; ``architecture`` is a value of ARCHITECTURES."""
    model, (layers, d, ffn, heads), pre_norm, defaults = architecture
    set_defaults(args, **defaults, encoder_layers=layers, encoder_embed_dim=d)
    set_defaults(args, encoder_ffn_embed_dim=ffn, encoder_attention_heads=heads)
    if pre_norm:
        args.encoder_normalize_before = True
    if model == EXLM:
        set_defaults(args, max_positions=2048, **defaults_of(EXLM_FLAGS))
    length, copies = (getattr(args, name, None) for name in ("tokens_per_sample", "repeat_times"))
    set_defaults(args, max_positions=(length or 512) * (copies or 1))
    set_defaults(args, **defaults_of(MLM_FLAGS))
    roberta_defaults(args)  # settings that fairseq's heads read


for _name, _architecture in ARCHITECTURES.items():
    register_model_architecture(_architecture[0], _name)(partial(complete, _architecture))
