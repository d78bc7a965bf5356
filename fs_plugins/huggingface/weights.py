"""Names of a checkpoint's tensors: fairseq's and those for transformers, both ways."""

from dataclasses import dataclass

import torch
from torch import Tensor

ENCODER = (
    ("encoder.sentence_encoder.emb_layer_norm_after.", "model.norm."),
    ("encoder.sentence_encoder.", "model."),
)
LM_HEAD = (
    ("encoder.lm_head.weight", "lm_head.decoder.weight"),
    ("encoder.lm_head.bias", "lm_head.decoder.bias"),
    ("encoder.lm_head.", "lm_head."),
    ("encoder.state_embedding", "state_embedding"),
    ("encoder.state_bias", "state_bias"),
)
TRANSITIONS = tuple(
    (f"encoder.{name}.", f"graph.{name}.")
    for name in ("link_positional", "link_distance", "query_linear", "key_linear", "gate_linear")
)
COMPUTED = ("sentence_encoder.version", "rot_emb.inv_freq")
TIED = "lm_head.decoder.weight", "model.embed_tokens.weight"


SEQUENCES, SPANS = "ExLMForSequenceClassification", "ExLMForQuestionAnswering"
HEADS = {
    SEQUENCES: ("classification_heads.{}.", "classifier."),
    SPANS: ("token_heads.{}.out_proj.", "qa_outputs."),
}


@dataclass(frozen=True)
class Head:
    """A fine-tuned head."""

    architecture: str  # its class in transformers, of HEADS
    name: str  # in the checkpoint

    @property
    def of_sequences(self) -> bool:
        """Returns whether it predicts something of whole sequences."""
        return self.architecture == SEQUENCES

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Returns what its weights begin with, in fairseq and in transformers."""
        ours, theirs = HEADS[self.architecture]
        return ((ours.format(self.name), theirs),)


def to_transformers(state: dict[str, Tensor], head: Head | None, transitions: bool) -> dict[str, Tensor]:
    """Returns float32 tensors under their names in transformers, each with memory of its own.

    Left out are what is computed there (rotary frequencies), the output matrix where it is the embedding, and
    what was not trained last: with ``head`` the LM head and transitions.
    """
    tensors = {}
    names = (*ENCODER, *(head.names if head else LM_HEAD), *(TRANSITIONS if transitions and not head else ()))
    for name, value in state.items():
        if not name.endswith(COMPUTED) and (theirs := _renamed(name, names)):
            tensors[theirs] = value.float().cpu().contiguous().clone()
    output, embedding = (tensors.get(name) for name in TIED)
    if output is not None and torch.equal(output, embedding):
        del tensors[TIED[0]]
    return tensors


def to_fairseq(tensors: dict[str, Tensor], head: Head | None) -> dict[str, Tensor]:
    """Returns float32 tensors under their names in fairseq; the computed ones are not among them. Raises
    ValueError for a tensor that no checkpoint has, or of integers."""
    pairs = (*LM_HEAD, *TRANSITIONS, *(head.names if head else ()), *ENCODER)
    names = tuple((theirs, ours) for ours, theirs in pairs)
    for name, value in tensors.items():
        if _renamed(name, names) is None:
            way_out = "merge an adapter, and save the model itself (not torch.compile's or DataParallel's)"
            raise ValueError(f"{name} is no tensor of an ExLM: {way_out}")
        if not value.is_floating_point():
            raise ValueError(f"{name} is of {value.dtype}: save the model without quantisation")
    if head is None and TIED[0] not in tensors and TIED[1] in tensors:
        tensors = {**tensors, TIED[0]: tensors[TIED[1]]}
    return {_renamed(name, names): value.float() for name, value in tensors.items()}


def incomplete_parts(missing: list[str], state: dict[str, Tensor]) -> list[str]:
    """Returns the missing weights of parts that are otherwise present. The LM head and the transitions may be
    absent as a whole."""
    for part in (LM_HEAD, TRANSITIONS):
        ours = tuple(name for name, _ in part)
        if not any(name.startswith(ours) and name != LM_HEAD[0][0] for name in state):
            missing = [name for name in missing if not name.startswith(ours)]
    return missing


def _renamed(name: str, names: tuple[tuple[str, str], ...]) -> str | None:
    """Returns the name with its beginning replaced by the first pair (old, new) that fits, or None."""
    return next((new + name.removeprefix(old) for old, new in names if name.startswith(old)), None)


def to_units(tensors: dict, info, sign: int = 1) -> None:
    """Makes the last layer of a regression give values in the units of its labels, in place; with sign -1,
    makes these the standardised values that were trained."""
    std, mean = (torch.tensor(values, dtype=torch.float64) for values in (info.std, info.mean))
    weight, bias = (tensors[f"classifier.out_proj.{name}"].double() for name in ("weight", "bias"))
    scaled = bias * std + mean if sign > 0 else (bias - mean) / std
    tensors["classifier.out_proj.weight"] = (weight * std[:, None] ** sign).float()
    tensors["classifier.out_proj.bias"] = scaled.float()
