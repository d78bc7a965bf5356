"""The card of an exported model: README.md of its folder."""

import html
import json
import re

from fs_plugins.checkpoint import Checkpoint
from fs_plugins.data.text_codecs import Codec, Smiles

TEMPLATE = """\
---
library_name: transformers
pipeline_tag: {pipeline}
license: {licence}
---

# {name}

{kind}, {layers} layers, hidden size {size}, {parameters:,} parameters, vocabulary of {entries:,}.

```python
from transformers import AutoTokenizer, {auto}, pipeline

folder = {folder}  # this folder, or its name on a hub
tokenizer = AutoTokenizer.from_pretrained(folder)
model = {auto}.from_pretrained(folder{trust})
print(pipeline("{pipeline}", model=model, tokenizer=tokenizer)("{example}"))
```

{inputs}

Trained with fairseq: `--arch {arch} --task {task} --criterion {criterion}`, {updates} updates, a share of
{mask_prob} of the tokens masked; config.json has all flags of the model and the task.

{notes}
"""
SMILES = {
    "canonical": "Give SMILES in RDKit's canonical form (`Chem.CanonSmiles`), as in training.",
    "as-given": "SMILES were read as the training data wrote them, not brought into a canonical form.",
    None: "Give SMILES in the form of the training data.",
}


def write(checkpoint: Checkpoint, config: dict, codec: Codec, **about: str | None) -> str:
    """Returns the text of the card.

    Args:
        checkpoint: the one exported; ``codec``: how its corpus was written.
        config: content of config.json.
        about: ``name``, ``licence`` and ``notes`` of :func:`fs_plugins.huggingface.export.export`.
    """
    smiles, is_exlm = isinstance(codec, Smiles), config["model_type"] == "exlm"
    settings = checkpoint.model.encoder.settings
    head = config["architectures"][0].partition("For")[2]
    inputs = SMILES[checkpoint.smiles_form] if smiles else "Give text without white space at its ends."
    if is_exlm:
        inputs += " Pad on the right. Each mask takes k positions."
    if head != "MaskedLM":
        inputs += f" Outputs ({config['problem_type']}): {_text(', '.join(config['id2label'].values()))}."
    text, masked = ("CCO", "CC<mask>O") if smiles else ("This is good news.", "This is <mask> news.")
    kind = f"ExLM, k = {checkpoint.k} states of a mask" if is_exlm else "A masked language model (ESM)"
    filled = TEMPLATE.format(
        pipeline="fill-mask" if head == "MaskedLM" else "text-classification",
        licence=json.dumps(about["licence"] or "unknown"),
        name=_text(about["name"]),
        folder=json.dumps(about["name"]).replace("`", r"\u0060"),
        kind=kind,
        layers=settings.encoder_layers,
        size=settings.encoder_embed_dim,
        parameters=sum(parameter.numel() for parameter in checkpoint.model.parameters()),
        entries=len(checkpoint.dictionary),
        auto=f"AutoModelFor{head}",
        trust=", trust_remote_code=True" if is_exlm else "",
        example=masked if head == "MaskedLM" else text,
        inputs=inputs,
        arch=checkpoint.arch,
        task=checkpoint.task,
        criterion=checkpoint.criterion,
        updates="unknown" if checkpoint.updates is None else f"{checkpoint.updates:,}",
        mask_prob=_text(getattr(checkpoint.cfg.task, "mask_prob", "none")),
        notes=about["notes"],
    )
    return filled.strip() + "\n"


def _text(value) -> str:
    """Returns a value as plain text of Markdown, in a line: no mark-up."""
    visible = "".join(char if char.isprintable() else " " for char in str(value))
    return re.sub(r"([\\\\`|\[\]])", r"\\\1", html.escape(" ".join(visible.split()), quote=False))
