"""The card of an exported model: README.md of its folder."""

import json
import re

from fs_plugins.checkpoint import Checkpoint
from fs_plugins.data.text_codecs import Codec, Smiles

SMILES = {
    "canonical": "Give SMILES in RDKit's canonical form (`Chem.CanonSmiles`), as in training.",
    "as-given": "Write SMILES as the training data does: they were not made canonical.",
    None: "Give SMILES in the form of the training data.",
}


def write(
    checkpoint: Checkpoint, config: dict, codec: Codec, name: str, licence: str | None, notes: str
) -> str:
    """Returns the text of the card.

    Args:
        checkpoint: the one exported; ``codec``: how its corpus was written.
        config: content of config.json.
        name: of the folder; ``licence`` and ``notes`` as of :func:`fs_plugins.huggingface.export.export`.
    """
    settings, is_exlm = checkpoint.model.encoder.settings, config["model_type"] == "exlm"
    auto = f"AutoModelFor{config['architectures'][0].partition('For')[2]}"
    if isinstance(codec, Smiles):
        inputs, example, text = SMILES[checkpoint.smiles_form], "CC<mask>O", "CCO"
    else:
        inputs = "Give text without white space at its ends."
        example, text = "This is <mask> news.", "This is good news."
    pipeline, title, trust = "fill-mask", "A masked language model (ESM)", ""
    if is_exlm:
        title, trust = f"ExLM, k = {checkpoint.k} states of a mask", ", trust_remote_code=True"
        inputs += " Pad on the right. Each mask takes k positions."
    if checkpoint.head:
        pipeline, example = "text-classification", text
        inputs += f" Outputs ({config['problem_type']}): {code(', '.join(config['id2label'].values()))}."
    masked = checkpoint.cfg.task.get("mask_prob")
    share = "" if masked is None else f", a share of {code(masked)} of the tokens masked"
    card = f"""\
---
library_name: transformers
pipeline_tag: {pipeline}
license: {json.dumps(licence or "unknown")}
---

# {name}

{title}, {settings.encoder_layers} layers, hidden size {settings.encoder_embed_dim}, \
{sum(p.numel() for p in checkpoint.model.parameters()):,} parameters, \
vocabulary of {len(checkpoint.dictionary):,}.

```python
from transformers import AutoTokenizer, {auto}, pipeline

folder = {json.dumps(name)}  # this folder, or its name on a hub
tokenizer = AutoTokenizer.from_pretrained(folder)
model = {auto}.from_pretrained(folder{trust})
print(pipeline("{pipeline}", model=model, tokenizer=tokenizer)("{example}"))
```

{inputs}

Trained with fairseq: `--arch {checkpoint.arch} --task {checkpoint.task} \
--criterion {checkpoint.criterion}`, {checkpoint.updates or "unknown"} updates{share}; \
config.json has all flags of the model and the task.

{notes}
"""
    return card.strip() + "\n"


def code(value) -> str:
    """Returns a value of a checkpoint, perhaps a stranger's, as a code span, in which nothing is mark-up."""
    plain = re.sub(r"[`\s]+", " ", str(value))
    return f"`{plain}`"
