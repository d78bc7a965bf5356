"""Named sizes of the models: the paper's (appendix N, tables 7 and 10) and a tiny one to try things with."""

from fairseq.models import register_model_architecture
from fairseq.models.roberta.model import base_architecture as roberta_defaults

from fs_plugins.models import causal_head, exlm_lattice, mlm  # noqa: F401  (registers the models of the names below)
from fs_plugins.models.flags import EXLM_FLAGS, MLM_FLAGS, ROPE_DIMENSIONS, defaults_of, set_defaults

# encoder layers, hidden size, feed-forward size, attention heads
BASE = (12, 768, 3072, 12)
LARGE = (24, 1024, 4096, 16)
SMILES = (9, 768, 2048, 12)
TINY = (2, 128, 512, 4)


def mlm_architecture(args, size=BASE) -> None:
    """Sets everything that the flags leave open, for the vanilla MLM."""
    layers, d, ffn, heads = size
    set_defaults(args, encoder_layers=layers, encoder_embed_dim=d)
    set_defaults(args, encoder_ffn_embed_dim=ffn, encoder_attention_heads=heads)
    if getattr(args, "max_positions", None) is None:
        length = getattr(args, "tokens_per_sample", None) or 512
        args.max_positions = length * (getattr(args, "repeat_times", None) or 1)
    set_defaults(args, **defaults_of((*MLM_FLAGS, ROPE_DIMENSIONS)))
    roberta_defaults(args)  # what fairseq's heads read besides


def exlm_architecture(args, size=BASE) -> None:
    """Sets everything that the flags leave open, for ExLM."""
    set_defaults(args, max_positions=2048, **defaults_of(EXLM_FLAGS))
    mlm_architecture(args, size)


# name -> its model, size, whether it is pre-norm, other defaults. Embeddings of the tiny ones are as large as
# what the layers add to them: at 0.02, with no norm after the embedding, words drown in it, and a small model
# takes thousands of updates to notice its context.
MLM, EXLM = ("p_roberta", mlm_architecture), ("p_roberta_ext_denselink", exlm_architecture)
ARCHITECTURES = {
    "p_roberta": (MLM, BASE, False, {}),
    "p_roberta_base": (MLM, BASE, False, {}),
    "p_roberta_large": (MLM, LARGE, False, {}),
    "mlm_smiles": (MLM, SMILES, True, {}),
    "mlm_causal": (("p_roberta_causal", mlm_architecture), SMILES, True, {}),
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


def _register(name: str, model: tuple, size: tuple, pre_norm: bool, defaults: dict) -> None:
    model_name, architecture = model

    def complete(args) -> None:
        if pre_norm:
            args.encoder_normalize_before = True
        set_defaults(args, **defaults)
        architecture(args, size)

    register_model_architecture(model_name, name)(complete)


for _name, _parts in ARCHITECTURES.items():
    _register(_name, *_parts)
