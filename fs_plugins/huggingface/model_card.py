"""The card of an exported model: README.md of its folder, by the template beside this file."""

import hashlib
import html
import json
import re
from importlib import metadata
from pathlib import Path

import jinja2
from huggingface_hub import ModelCardData
from omegaconf import OmegaConf

from fs_plugins.checkpoint import Checkpoint
from fs_plugins.data.text_codecs import Codec, Smiles
from fs_plugins.huggingface.exported_config import longest_text

PIPELINES = {"ForMaskedLM": "fill-mask", "ForSequenceClassification": "text-classification"}
OUTPUTS = {
    "regression": "values in the units of the training labels",
    "multi_label_classification": "logits; the sigmoid of each is the probability of class 1",
    "single_label_classification": "logits of the classes",
}
# flags of the run that a card gives, by their group
FLAGS = {
    "task": "mask_prob leave_unmasked_prob random_token_prob tokens_per_sample sample_break_mode metrics",
    "dataset": "batch_size max_tokens",
    "optimization": "update_freq lr max_update max_epoch",
    "common": "seed",
}


def write(checkpoint: Checkpoint, config: dict, codec: Codec, tensors: dict, **about: str | None) -> str:
    """Returns the text of the card.

    Args:
        checkpoint: the one exported; ``codec``: how its corpus was written.
        config: content of config.json.
        tensors: what the folder holds, for their number.
        about: ``name``, ``licence`` and ``notes`` of :func:`fs_plugins.huggingface.export.export`.
    """
    template = Path(__file__).with_suffix(".md.jinja").read_text(encoding="utf-8")
    head, smiles = config["architectures"][0].removeprefix("ExLM"), isinstance(codec, Smiles)
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"text": text_of, "quoted": quoted}
    tags = ["exlm", "sentence-transformers", *(["chemistry"] if smiles else [])]
    pipeline, licence = PIPELINES.get(head), about.pop("licence") or None
    header = ModelCardData(library_name="transformers", pipeline_tag=pipeline, license=licence, tags=tags)
    text = environment.from_string(template).render(
        **about,
        header=header.to_yaml(),
        config=config,
        k=config["num_states"],
        ctc=config["alignment"] == "ctc",
        head=head,
        pipeline=pipeline,
        outputs=OUTPUTS,
        labels=list(config.get("id2label", {}).values()),
        parameters=sum(tensor.numel() for tensor in tensors.values()),
        longest=longest_text(config),
        smiles=smiles and (config["fairseq"]["smiles"] or "unknown"),
        text="CCO" if smiles else "This is good news.",
        masked="CC<mask>O" if smiles else "This is <mask> news.",
        training=_training(checkpoint, config["fairseq"]["symbols"]),
    )
    return text.strip() + "\n"


def text_of(value) -> str:
    """Returns a value as plain text of Markdown, in a line: no mark-up, no end of a table's cell."""
    visible = "".join(char if char.isprintable() else " " for char in str(value))
    return re.sub(r"([\\\\`|\[\]])", r"\\\1", html.escape(" ".join(visible.split()), quote=False))


def quoted(value: str) -> str:
    """Returns a string as Python reads it, without what would end a code span."""
    return json.dumps(value, ensure_ascii=False).replace("`", r"\u0060").replace("<", r"\u003c")


def _training(checkpoint: Checkpoint, symbols: str) -> list[tuple[str, str]]:
    """Returns rows of a table: what, value; ``symbols`` is the identity of the dictionary."""
    # Stays unresolved: OmegaConf would put variables of the environment in place of interpolations.
    cfg = OmegaConf.to_container(checkpoint.cfg, resolve=False)
    rows = [
        ("task, criterion", f"{checkpoint.task}, {checkpoint.criterion}"),
        ("architecture", checkpoint.arch),
        ("updates", "unknown" if checkpoint.updates is None else f"{checkpoint.updates:,}"),
    ]
    if checkpoint.score is not None:
        metric = cfg.get("checkpoint", {}).get("best_checkpoint_metric") or "loss"
        rows.append((f"validation {metric}, as logged", f"{checkpoint.score:g}"))
    for group, names in FLAGS.items():
        for flag in names.split():
            if (value := cfg.get(group, {}).get(flag)) not in (None, "", 0):
                rows.append((flag.replace("_", " "), str(value).strip("[]")))  # some are lists of one
    rows.append(("dictionary", f"SHA-256 {symbols} of its symbols"))
    files = [checkpoint.path] if checkpoint.path.is_file() else sorted(checkpoint.path.glob("*.safetensors"))
    rows += [("checkpoint", f"SHA-256 {_hash(path)}") for path in files]
    made_with = (f"{name} {metadata.version(name)}" for name in ("exlm", "fairseq-fixed", "torch"))
    return [*rows, ("made with", ", ".join(made_with))]


def _hash(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
