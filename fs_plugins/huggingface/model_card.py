"""The card of an exported model: README.md of its folder, by the template beside this file."""

import hashlib
import json
from importlib import metadata
from pathlib import Path

import jinja2

from fs_plugins.checkpoint import Checkpoint, stored_folders
from fs_plugins.data.text_codecs import MANIFEST, Codec, Smiles, smiles_form
from fs_plugins.data.vocabulary import Vocabulary
from fs_plugins.huggingface.settings import longest_text

PIPELINES = {"ForMaskedLM": "fill-mask", "ForSequenceClassification": "text-classification"}
OUTPUTS = {
    "regression": "values in the units of the training labels",
    "multi_label_classification": "logits; the sigmoid of each is the probability of class 1",
    "single_label_classification": "logits of the classes",
}
SUMMARIES = ("prepared.json", "molecules.json", "summary.json")  # of the scripts that prepare data
# flags of the run that a card gives, by their group
FLAGS = {
    "task": "mask_prob leave_unmasked_prob random_token_prob tokens_per_sample sample_break_mode metrics",
    "dataset": "batch_size max_tokens",
    "optimization": "update_freq lr max_update max_epoch",
    "common": "seed",
}


def write(
    checkpoint: Checkpoint,
    config: dict,
    codec: Codec,
    tensors: dict,
    *,
    name: str,
    licence: str | None = None,
    notes: str = "",
) -> str:
    """The text of the card.

    Args:
        checkpoint: the one exported.
        config: content of config.json.
        codec: how its corpus was written.
        tensors: what the folder holds, for their number.
        name: of the model.
        licence: of the model; left open if it is not given.
        notes: Markdown for the end.
    """
    template = Path(__file__).with_suffix(".md.jinja").read_text(encoding="utf-8")
    head, smiles = config["architectures"][0].removeprefix("ExLM"), isinstance(codec, Smiles)
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    text = environment.from_string(template).render(
        name=name,
        licence=licence,
        notes=notes,
        config=config,
        k=config["num_states"],
        ctc=config["alignment"] == "ctc",
        head=head,
        pipeline=PIPELINES.get(head),
        outputs=OUTPUTS,
        labels=list(config.get("id2label", {}).values()),
        parameters=sum(tensor.numel() for tensor in tensors.values()),
        longest=longest_text(config),
        smiles=smiles and _smiles_form(checkpoint),
        text="CCO" if smiles else "This is good news.",
        masked="CC<mask>O" if smiles else "This is <mask> news.",
        training=_training(checkpoint),
    )
    return text.strip() + "\n"


def _smiles_form(checkpoint: Checkpoint) -> str:
    """That of the training data: "canonical", "as-given" or "unknown"."""
    info, record = checkpoint.properties, _data_file(checkpoint, MANIFEST)
    if info is not None:
        return "canonical" if info.canonical else "as-given"
    return record and smiles_form(record.parent) or "unknown"


def _training(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    """Rows of a table: what, value."""
    cfg = checkpoint.cfg
    rows = [
        ("task, criterion", f"`{checkpoint.task}`, `{checkpoint.criterion}`"),
        ("architecture", f"`{checkpoint.arch}`"),
        ("updates", "unknown" if checkpoint.updates is None else f"{checkpoint.updates:,}"),
    ]
    if checkpoint.score is not None:
        metric = getattr(getattr(cfg, "checkpoint", None), "best_checkpoint_metric", None) or "loss"
        rows.append((f"validation {metric}, as logged", f"{checkpoint.score:g}"))
    for group, names in FLAGS.items():
        for flag in names.split():
            value = getattr(getattr(cfg, group, None), flag, None)
            if not isinstance(value, str) and hasattr(value, "__iter__"):
                value = ", ".join(map(str, value))  # fairseq keeps some as lists of one
            if str(value) not in ("None", "", "0"):
                rows.append((flag.replace("_", " "), str(value)))
    vocabulary = Vocabulary.of(checkpoint.dictionary.symbols, checkpoint.path)
    rows.append(("dictionary", f"SHA-256 `{vocabulary.identity}` of its symbols"))
    for name in SUMMARIES:
        if (path := _data_file(checkpoint, name)) is not None:
            rows.append((f"data (`{name}`)", f"{_contents(path)}SHA-256 `{_hash(path)}`"))
    rows.append(("checkpoint", f"SHA-256 `{_hash(checkpoint.path)}`"))
    made_with = (f"{name} {metadata.version(name)}" for name in ("exlm", "fairseq-fixed", "torch"))
    return [*rows, ("made with", ", ".join(made_with))]


def _data_file(checkpoint: Checkpoint, name: str) -> Path | None:
    """What a preparation left in the folder of the run's data, or of its dictionary."""
    folders = stored_folders(checkpoint.path, getattr(checkpoint.cfg.task, "data", None))
    folders += [checkpoint.data] if checkpoint.data else []
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _contents(path: Path) -> str:
    """The names of the inputs and the sizes of the splits, as far as they are known; no paths."""
    said, record = [], path.with_name(MANIFEST)
    inputs = json.loads(record.read_text(encoding="utf-8"))["inputs"] if record.is_file() else {}
    for split in ("train", "valid"):
        names = [Path(name).name for name in inputs if name.startswith(f"--{split} ")]
        said += [f"{split}: " + ", ".join(names)] if names else []
    for name, split in json.loads(path.read_text(encoding="utf-8")).items():
        if isinstance(split, dict):
            units = ("sentences", "tokens", "kept")
            said += [f"{name}: {split[unit]:,} {unit}" for unit in units if isinstance(split.get(unit), int)]
    return "".join(f"{text}; " for text in said)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
