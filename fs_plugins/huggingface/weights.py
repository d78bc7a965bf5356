"""A checkpoint's tensors in fairseq and in transformers: the same names, but for heads."""

import torch
from torch import Tensor

from fs_plugins.checkpoint import Head

ENCODER = "encoder.sentence_encoder."
LM_HEAD = ("encoder.lm_head.", "encoder.state_")
TRANSITIONS = ("encoder.link_", "encoder.query_linear.", "encoder.key_linear.", "encoder.gate_linear.")
SEQUENCES, SPANS = "ExLMForSequenceClassification", "ExLMForQuestionAnswering"
# class in transformers -> beginnings of the names of its head's weights in fairseq, and there
HEADS = {
    SEQUENCES: ("classification_heads.{}.", "classifier."),
    SPANS: ("token_heads.{}.out_proj.", "qa_outputs."),
}


def _names(head: Head | None) -> dict[str, str]:
    """Returns {beginning of the names of weights in fairseq: in transformers}."""
    names = {start: start for start in (ENCODER, *LM_HEAD, *TRANSITIONS)}
    if head is not None:
        ours, theirs = HEADS[head.architecture]
        names[ours.format(head.name)] = theirs
    return names


def _renamed(name: str, names: dict[str, str]) -> str:
    """Returns the name with the other beginning, if it has one of these."""
    start = next(filter(name.startswith, names), "")
    return names.get(start, "") + name.removeprefix(start)


def to_transformers(weights: dict[str, Tensor], head: Head | None, transitions: bool) -> dict[str, Tensor]:
    """Returns the parameters of a model under their names in transformers, in float32, each with memory of
    its own. Left out is what was not trained last: with ``head`` the LM head and transitions."""
    left_out = (*LM_HEAD, *TRANSITIONS) if head else () if transitions else TRANSITIONS
    names = {start: theirs for start, theirs in _names(head).items() if start not in left_out}
    return {
        _renamed(name, names): value.float().cpu().clone().contiguous()
        for name, value in weights.items()
        if name.startswith(tuple(names))
    }


def to_fairseq(tensors: dict[str, Tensor], head: Head | None) -> dict[str, Tensor]:
    """Returns float32 tensors under their names in fairseq. Raises ValueError for those of integers."""
    for name, value in tensors.items():
        if not value.is_floating_point():
            raise ValueError(f"{name} is of {value.dtype}: save the model without quantisation")
    names = {theirs: ours for ours, theirs in _names(head).items()}
    return {_renamed(name, names): value.float() for name, value in tensors.items()}


def to_units(tensors: dict, info, sign: int = 1) -> None:
    """Makes the last layer of a regression give values in the units of its labels, in place; with sign -1,
    makes these the standardised values that were trained."""
    std, mean = (torch.tensor(values, dtype=torch.float64) for values in (info.std, info.mean))
    weight, bias = (tensors[f"classifier.out_proj.{name}"].double() for name in ("weight", "bias"))
    scaled = bias * std + mean if sign > 0 else (bias - mean) / std
    tensors["classifier.out_proj.weight"] = (weight * std[:, None] ** sign).float()
    tensors["classifier.out_proj.bias"] = scaled.float()
