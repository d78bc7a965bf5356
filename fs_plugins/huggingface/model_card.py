"""The card of an exported model: README.md of its folder."""

import hashlib
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fs_plugins.analysis.checkpoint import Checkpoint, stored_folders
from fs_plugins.data.text_codecs import MANIFEST, Codec, Smiles, smiles_form
from fs_plugins.huggingface.settings import longest_text

PIPELINES = {"ExLMForMaskedLM": "fill-mask", "ExLMForSequenceClassification": "text-classification"}
SUMMARIES = ("prepared.json", "molecules.json", "summary.json")  # of the scripts that prepare data
UNITS = ("sentences", "tokens", "kept")  # of a split, in these
# flags of the run that a card gives, by their group
FLAGS = {
    "task": (
        "mask_prob",
        "leave_unmasked_prob",
        "random_token_prob",
        "tokens_per_sample",
        "sample_break_mode",
    ),
    "criterion": ("glue_metric",),
    "dataset": ("batch_size", "max_tokens"),
    "optimization": ("update_freq", "lr", "max_update", "max_epoch"),
    "common": ("seed",),
}


def write(
    checkpoint: Checkpoint,
    config: dict,
    codec: Codec,
    tensors: dict,
    *,
    name: str,
    licence: str | None = None,
) -> str:
    """The text of the card.

    Args:
        checkpoint: the one exported.
        config: content of config.json.
        codec: how its corpus was written.
        tensors: what the folder holds, for their number.
        name: of the model.
        licence: of the model; left open if it is not given.
    """
    sections = (
        _header(config, codec, licence),
        f"# {name}",
        _summary(config, tensors),
        _usage(config, codec, name),
        _outputs(config),
        _inputs(checkpoint, config, codec),
        _training(checkpoint),
    )
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _header(config: dict, codec: Codec, licence: str | None) -> str:
    lines = ["library_name: transformers"]
    pipeline = PIPELINES.get(config["architectures"][0])
    lines += [f"pipeline_tag: {pipeline}"] if pipeline else []
    lines += [f"license: {licence}"] if licence else []
    lines += ["tags:", "- exlm", "- sentence-transformers"] + (
        ["- chemistry"] if isinstance(codec, Smiles) else []
    )
    return "\n".join(["---", *lines, "---"])


def _summary(config: dict, tensors: dict) -> str:
    k = config["num_states"]
    if k:
        kind = f"ExLM with k = {k} states for each `<s>`, `</s>` and `<mask>`"
        kind += ", without transitions (CTC)" if config["alignment"] == "ctc" else ""
        kind += ", without 2D RoPE" if config["rope_dimensions"] == 1 else ""
        kind += {"sparse": ", with a sparse DAG", "local": ", with local transitions"}.get(
            config["state_graph"], ""
        )
        kind += ", on a lattice" if config["state_graph"] == "lattice" else ""
        kind += ", with state embeddings" if config["state_embedding"] else ""
        shared = config["expand_from_layer"]
        kind += f", expanded after {shared} of its layers" if shared else ""
    elif config["repeat_times"] > 1:
        kind = f"Repeated MLM: each token is repeated {config['repeat_times']} times inside the model"
    else:
        kind = "A masked language model with rotary positions"
    parameters = sum(tensor.numel() for tensor in tensors.values())
    return (
        f"{kind}. {config['num_hidden_layers']} layers, hidden size {config['hidden_size']}, "
        f"{parameters:,} parameters, vocabulary of {config['vocab_size']:,}."
    )


def _usage(config: dict, codec: Codec, name: str) -> str:
    text = "CCO" if isinstance(codec, Smiles) else "This is good news."
    kind = config["architectures"][0].removeprefix("ExLM")
    lines = [
        "from transformers import AutoModel, AutoTokenizer",
        "",
        f'tokenizer = AutoTokenizer.from_pretrained("{name}", trust_remote_code=True)',
        f'model = AutoModel.from_pretrained("{name}", trust_remote_code=True)',
        f'rows = model(**tokenizer(["{text}"], return_tensors="pt", padding=True)).last_hidden_state',
    ]
    masked = "CC<mask>O" if isinstance(codec, Smiles) else "This is <mask> news."
    if pipeline := PIPELINES.get(config["architectures"][0]):
        lines += [
            "",
            "from transformers import pipeline",
            "",
            f'pipe = pipeline("{pipeline}", "{name}", trust_remote_code=True)',
            f'pipe("{masked if pipeline == "fill-mask" else text}")',
        ]
    code = "\n".join(lines)
    return f"""## Use

```python
{code}
```

The path is that of this folder, or its name on a hub. The head that was trained loads with
`AutoModel{kind}`; `AutoModelForSequenceClassification`, `AutoModelForTokenClassification` and
`AutoModelForQuestionAnswering` put a new head on the encoder, for `Trainer`.
`SentenceTransformer("{name}", trust_remote_code=True)` gives one vector for each text; its mean pooling, if
it is set to that, counts `<s>` and `</s>`."""


def _outputs(config: dict) -> str:
    lines = [
        "- `last_hidden_state` [batch, tokens, hidden size]: one row for each token of the tokenizer"
        + ("; of a token with states, that of its first state." if config["num_states"] else ".")
    ]
    kind = config["architectures"][0]
    labels = list(config.get("id2label", {}).values())
    if kind == "ExLMForMaskedLM" and config["num_states"]:
        lines.append(
            "- `logits` at a mask: log-probabilities of its word, "
            + (
                "by CTC over its states."
                if config["alignment"] == "ctc"
                else "the exact marginal over all paths of the graph that have one word for each mask. "
                "Those of several masks are not independent."
            )
            + " At other tokens they were not trained."
        )
        lines.append(
            "- `loss` in nats for each target, mean over sentences; `<s>` and `</s>` are targets too."
        )
        if config["alignment"] == "dag":
            lines.append("- `links`, `node_logits`: the graph of states and their words.")
    if kind == "ExLMForSequenceClassification":
        problem = config["problem_type"]
        what = {
            "regression": "values in the units of the training labels",
            "multi_label_classification": "logits; the sigmoid of each is the probability of class 1",
            "single_label_classification": "logits of the classes",
        }[problem]
        lines.append(f"- `logits` [batch, {len(labels)}]: {what}: {', '.join(labels)}.")
    if kind == "ExLMForQuestionAnswering":
        lines.append(
            "- `start_logits`, `end_logits` [batch, tokens]: of `tokenizer(question, context)`. Only tokens "
            "of the context and `<s>`, which stands for no answer, are to be compared."
        )
    return "\n".join(["## Outputs", "", *lines])


def _inputs(checkpoint: Checkpoint, config: dict, codec: Codec) -> str:
    lines = [
        "- Pad on the right, as this tokenizer does. Left padding, `inputs_embeds` and flash attention are "
        "errors.",
        f"- Up to {longest_text(config):,} tokens, with `<s>` and `</s>`"
        + (f"; each mask takes {config['num_states']} of them." if config["num_states"] else "."),
    ]
    if isinstance(codec, Smiles):
        lines.append(
            f"- SMILES {_smiles_form(checkpoint)} What is no token of this vocabulary becomes `<unk>`."
        )
    else:
        lines.append("- Texts are to be stripped of white space at their ends. Write a mask as `<mask>`.")
        lines.append("- `<s>`, `</s>`, `<pad>`, `<unk>` and `<mask>` in a text are read as these symbols.")
    return "\n".join(["## Inputs and limits", "", *lines])


def _smiles_form(checkpoint: Checkpoint) -> str:
    info, record = checkpoint.properties, _data_file(checkpoint, MANIFEST)
    form = smiles_form(record.parent) if record is not None else None
    if info is None and form is None:
        return "in the form of the training data."
    canonical = info.canonical if info is not None else form == "canonical"
    if canonical:
        return "have to be in RDKit's canonical form (`Chem.CanonSmiles`), as in training."
    return "were read as the training data wrote them, not brought into a canonical form."


def _training(checkpoint: Checkpoint) -> str:
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
        for flag in names:
            value = getattr(getattr(cfg, group, None), flag, None)
            shown = (
                str(value) if isinstance(value, str) or value is None else ", ".join(map(str, _listed(value)))
            )
            if flag == "seed" or shown not in ("None", "", "0"):
                rows.append((flag.replace("_", " "), shown))
    rows.append(("dictionary", f"SHA-256 `{_hash_of_symbols(checkpoint)}` of its symbols"))
    for name in SUMMARIES:
        if (path := _data_file(checkpoint, name)) is not None:
            rows.append((f"data (`{name}`)", f"{_contents(path)}SHA-256 `{_hash(path)}`"))
    rows.append(("checkpoint", f"SHA-256 `{_hash(checkpoint.path)}`"))
    rows.append(("made with", ", ".join(f"{p} {_version(p)}" for p in ("exlm", "fairseq-fixed", "torch"))))
    table = "\n".join(f"| {what} | {value} |" for what, value in rows)
    return f"## Training\n\n| | |\n|---|---|\n{table}"


def _listed(value) -> list:
    """A flag's values; fairseq keeps some as lists of one."""
    return list(value) if hasattr(value, "__iter__") else [value]


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
            said += [f"{name}: {split[unit]:,} {unit}" for unit in UNITS if isinstance(split.get(unit), int)]
    return "".join(f"{text}; " for text in said)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash_of_symbols(checkpoint: Checkpoint) -> str:
    from fs_plugins.data.property_info import fingerprint

    return fingerprint(checkpoint.dictionary.symbols)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(unknown version)"
