"""Named sizes of the models: the paper's (appendix N, tables 7 and 10) and a tiny one to try things with."""

from argparse import Namespace
from functools import partial

from fairseq.models import MODEL_REGISTRY, register_model_architecture
from fairseq.models.roberta.model import base_architecture as roberta_defaults

from fs_plugins.models.exlm import ExLMModel
from fs_plugins.models.mlm import RotaryRobertaModel

SIZES = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads")
BASE, LARGE, SMILES, TINY = (
    dict(zip(SIZES, sizes, strict=True))
    for sizes in ((12, 768, 3072, 12), (24, 1024, 4096, 16), (9, 768, 2048, 12), (2, 128, 512, 4))
)
# Embeddings of the tiny ones are as large as what the layers add to them: at 0.02, with no norm after the
# embedding, words drown in it, and a small model takes thousands of updates to notice its context.
TINY["embedding_init_std"] = 0.2
PRE_NORM = {"encoder_normalize_before": True}
ARCHITECTURES = {
    "p_roberta": {
        "p_roberta": BASE,
        "p_roberta_base": BASE,
        "p_roberta_large": LARGE,
        "mlm_smiles": SMILES | PRE_NORM,
        "mlm_tiny": TINY | PRE_NORM,
    },
    "p_roberta_ext_denselink": {
        "p_roberta_ext_denselink": BASE,
        "p_roberta_ext_denselink_base": BASE,
        "p_roberta_ext_denselink_large": LARGE,
        "p_roberta_ext_denselink_prenorm": BASE | PRE_NORM,
        "exlm_base": BASE | PRE_NORM,
        "exlm_large": LARGE | PRE_NORM,
        "exlm_smiles": SMILES | PRE_NORM | {"ext_state_num": 2},
        "exlm_tiny": TINY | PRE_NORM,
    },
}


def complete(model: type[RotaryRobertaModel], architecture: dict, args: Namespace) -> None:
    """Sets everything that the flags leave open."""
    defaults = {flag.name: flag.default for flag in model.flags} | architecture
    if model is not ExLMModel:  # a sample with its copies
        length, copies = (getattr(args, name, None) for name in ("tokens_per_sample", "repeat_times"))
        defaults["max_positions"] = (length or 512) * (copies or 1)
    for name, value in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)
    roberta_defaults(args)  # settings that fairseq's heads read


for _model, _architectures in ARCHITECTURES.items():
    for _name, _architecture in _architectures.items():
        _complete = partial(complete, MODEL_REGISTRY[_model], _architecture)
        register_model_architecture(_model, _name)(_complete)
