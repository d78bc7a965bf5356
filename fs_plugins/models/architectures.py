"""Named sizes of the models: the paper's (appendix N, tables 7 and 10) and a tiny one to try things with."""

from fairseq.models import register_model_architecture
from fairseq.models.roberta.model import base_architecture as roberta_defaults

from fs_plugins.models import exlm, mlm  # noqa: F401  (registers the models that the names below belong to)

# encoder layers, hidden size, feed-forward size, attention heads
BASE = (12, 768, 3072, 12)
LARGE = (24, 1024, 4096, 16)
SMILES = (9, 768, 2048, 12)
TINY = (2, 128, 512, 4)

# Flags that change what a model computes, but not the shapes of its weights: fairseq loads them all the same.
SAME_SHAPES = (
    *("ext_state_num", "expand_from_layer", "rope_dimensions", "state_graph", "max_transition_length"),
    *("encoder_normalize_before", "activation_fn"),
)
# Flags that make a model what it is; dropout and the like are a training's.
MODEL_FLAGS = (
    *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads"),
    *("max_positions", "links_feature", "untie_weights_roberta", "pooler_activation_fn"),
    *("embedding_init_std", "state_embedding_scale"),
    *SAME_SHAPES,
)


def _set_defaults(args, **defaults) -> None:
    for name, value in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)


def _set_size(args, size: tuple[int, int, int, int]) -> None:
    layers, d, ffn, heads = size
    _set_defaults(
        args,
        encoder_layers=layers,
        encoder_embed_dim=d,
        encoder_ffn_embed_dim=ffn,
        encoder_attention_heads=heads,
    )


def mlm_architecture(args, size=BASE) -> None:
    """Everything that the flags leave open, for the vanilla MLM."""
    _set_size(args, size)
    if getattr(args, "max_positions", None) is None:
        length = getattr(args, "tokens_per_sample", None) or 512
        args.max_positions = length * (getattr(args, "repeat_times", None) or 1)
    _set_defaults(
        args,
        embedding_init_std=0.02,
        rope_dimensions=2,
        checkpoint_activations=False,
        compile=False,
        load_checkpoint_heads=False,
    )
    roberta_defaults(args)  # dropouts, activations and what fairseq's heads read besides


def exlm_architecture(args, size=BASE) -> None:
    """Everything that the flags leave open, for ExLM."""
    _set_defaults(args, max_positions=2048, ext_state_num=4, links_feature="feature:position")
    _set_defaults(args, state_graph="dag", max_transition_length=-1)
    _set_defaults(args, expand_from_layer=0, state_embedding_scale=0.0)
    mlm_architecture(args, size)


def _prenorm(args) -> None:
    args.encoder_normalize_before = True


def _tiny(args) -> None:
    """Embeddings as large as what the layers add to them: at 0.02, with no norm after the embedding, words
    drown in it, and a small model takes thousands of updates to notice its context."""
    _prenorm(args)
    _set_defaults(args, embedding_init_std=0.2)


@register_model_architecture("p_roberta", "p_roberta")
@register_model_architecture("p_roberta", "p_roberta_base")
def p_roberta_base(args):
    mlm_architecture(args, BASE)


@register_model_architecture("p_roberta", "p_roberta_large")
def p_roberta_large(args):
    mlm_architecture(args, LARGE)


@register_model_architecture("p_roberta", "mlm_smiles")
def mlm_smiles(args):
    _prenorm(args)
    mlm_architecture(args, SMILES)


@register_model_architecture("p_roberta", "mlm_tiny")
def mlm_tiny(args):
    _tiny(args)
    mlm_architecture(args, TINY)


@register_model_architecture("p_roberta_ext_denselink", "p_roberta_ext_denselink")
@register_model_architecture("p_roberta_ext_denselink", "p_roberta_ext_denselink_base")
def p_roberta_ext_denselink_base(args):
    exlm_architecture(args, BASE)


@register_model_architecture("p_roberta_ext_denselink", "p_roberta_ext_denselink_large")
def p_roberta_ext_denselink_large(args):
    exlm_architecture(args, LARGE)


@register_model_architecture("p_roberta_ext_denselink", "p_roberta_ext_denselink_prenorm")
@register_model_architecture("p_roberta_ext_denselink", "exlm_base")
def exlm_base(args):
    _prenorm(args)
    exlm_architecture(args, BASE)


@register_model_architecture("p_roberta_ext_denselink", "exlm_large")
def exlm_large(args):
    _prenorm(args)
    exlm_architecture(args, LARGE)


@register_model_architecture("p_roberta_ext_denselink", "exlm_smiles")
def exlm_smiles(args):
    _prenorm(args)
    _set_defaults(args, ext_state_num=2)
    exlm_architecture(args, SMILES)


@register_model_architecture("p_roberta_ext_denselink", "exlm_tiny")
def exlm_tiny(args):
    _tiny(args)
    exlm_architecture(args, TINY)
