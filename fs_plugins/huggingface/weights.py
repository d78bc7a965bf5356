"""A checkpoint's tensors in fairseq and in transformers: the same names, but for heads."""

from dataclasses import dataclass

import torch
from torch import Tensor

LM_HEAD = ("encoder.lm_head.", "encoder.state_")
TRANSITIONS = ("encoder.link_", "encoder.query_linear.", "encoder.key_linear.", "encoder.gate_linear.")
COMPUTED = ("sentence_encoder.version", "rot_emb.inv_freq")
ENCODER = "encoder.sentence_encoder."
TIED = "encoder.lm_head.weight", f"{ENCODER}embed_tokens.weight"

SEQUENCES, SPANS = "ExLMForSequenceClassification", "ExLMForQuestionAnswering"
HEADS = {
    SEQUENCES: ("classification_heads.{}.", "classifier."),
    SPANS: ("token_heads.{}.out_proj.", "qa_outputs."),
}


@dataclass(frozen=True)
class Head:
    """A fine-tuned head."""

    architecture: str  # its class in transformers, of HEADS
    name: str  # name in the checkpoint

    @property
    def of_sequences(self) -> bool:
        """Returns whether it predicts something of whole sequences."""
        return self.architecture == SEQUENCES

    @property
    def prefixes(self) -> tuple[str, str]:
        """Returns what the names of its weights begin with, in fairseq and in transformers."""
        ours, theirs = HEADS[self.architecture]
        return ours.format(self.name), theirs


def _renamed(name: str, start: str, other: str) -> str:
    """Returns the name with another beginning, if it begins with ``start``."""
    return other + name.removeprefix(start) if name.startswith(start) else name


def to_transformers(state: dict[str, Tensor], head: Head | None, transitions: bool) -> dict[str, Tensor]:
    """Returns float32 tensors under their names in transformers, each with memory of its own.

    Left out are what is computed there (rotary frequencies), the output matrix where it is the embedding, and
    what was not trained last: with ``head`` the LM head and transitions.
    """
    wanted = (ENCODER, *(() if head else LM_HEAD), *(TRANSITIONS if transitions and not head else ()))
    ours, theirs = head.prefixes if head else ("encoder.", "encoder.")
    tensors = {
        _renamed(name, ours, theirs): value.float().cpu().clone().contiguous()
        for name, value in state.items()
        if not name.endswith(COMPUTED) and name.startswith((*wanted, *([ours] if head else [])))
    }
    output, embedding = (tensors.get(name) for name in TIED)
    if output is not None and torch.equal(output, embedding):
        del tensors[TIED[0]]
    return tensors


def to_fairseq(tensors: dict[str, Tensor], head: Head | None) -> dict[str, Tensor]:
    """Returns float32 tensors under their names in fairseq; the computed ones are not among them. Raises
    ValueError for a tensor that no checkpoint has, or of integers."""
    ours, theirs = head.prefixes if head else ("encoder.", "encoder.")
    for name, value in tensors.items():
        if not name.startswith((ENCODER, *LM_HEAD, *TRANSITIONS, *([theirs] if head else []))):
            way_out = "merge an adapter, and save the model itself (not torch.compile's or DataParallel's)"
            raise ValueError(f"{name} is no tensor of an ExLM: {way_out}")
        if not value.is_floating_point():
            raise ValueError(f"{name} is of {value.dtype}: save the model without quantisation")
    if head is None and TIED[0] not in tensors and TIED[1] in tensors:
        tensors = {**tensors, TIED[0]: tensors[TIED[1]]}
    return {_renamed(name, theirs, ours): value.float() for name, value in tensors.items()}


def incomplete_parts(missing: list[str], state: dict[str, Tensor]) -> list[str]:
    """Returns the missing weights of parts that are otherwise present. The LM head and the transitions may be
    absent as a whole."""
    for part in (LM_HEAD, TRANSITIONS):
        if not any(name.startswith(part) and name != TIED[0] for name in state):
            missing = [name for name in missing if not name.startswith(part)]
    return missing


def to_units(tensors: dict, info, sign: int = 1) -> None:
    """Makes the last layer of a regression give values in the units of its labels, in place; with sign -1,
    makes these the standardised values that were trained."""
    std, mean = (torch.tensor(values, dtype=torch.float64) for values in (info.std, info.mean))
    weight, bias = (tensors[f"classifier.out_proj.{name}"].double() for name in ("weight", "bias"))
    scaled = bias * std + mean if sign > 0 else (bias - mean) / std
    tensors["classifier.out_proj.weight"] = (weight * std[:, None] ** sign).float()
    tensors["classifier.out_proj.bias"] = scaled.float()
