"""An exported folder read as a checkpoint: its flags, verbatim, and its weights.

An ExLM's weights keep their names. An MLM's are those of transformers' ESM, the same model but for names and
for the order of a head's dimensions: ESM rotates dimension j of a head with j + D/2, for all D of a head, 2D
RoPE does so within each half of it. So the rows of queries and keys are permuted, and the second half, which
2D RoPE does not rotate where there are no copies, has the frequency 0.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from fs_plugins.exlm.rotary import RotaryEmbedding
from fs_plugins.files import naming_errors

CONFIG, WEIGHTS = "config.json", "model.safetensors"
ENCODER, LAYERS = "encoder.sentence_encoder.", "encoder.sentence_encoder.layers."
NOT_FINE_TUNED = ("encoder.lm_head.", "encoder.link_", "encoder.query_", "encoder.key_", "encoder.gate_")
HEAD = "classifier."  # a classification head in transformers
FREQUENCIES, CONTACTS = "esm.rotary_embeddings.inv_freq", "esm.contact_head.regression."
# modules of fairseq's MLM -> of ESM
MODULES = {
    f"{ENCODER}embed_tokens": "esm.embeddings.word_embeddings",
    f"{ENCODER}emb_layer_norm_after": "esm.encoder.emb_layer_norm_after",
    "encoder.lm_head.dense": "lm_head.dense",
    "encoder.lm_head.layer_norm": "lm_head.layer_norm",
}
OF_A_LAYER = {
    "self_attn.q_proj": "attention.self.query",
    "self_attn.k_proj": "attention.self.key",
    "self_attn.v_proj": "attention.self.value",
    "self_attn.out_proj": "attention.output.dense",
    "self_attn_layer_norm": "attention.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "final_layer_norm": "LayerNorm",
}


def is_folder(path: str | Path) -> bool:
    """Returns whether it is a folder for transformers."""
    return (Path(path) / CONFIG).is_file()


def read_folder(folder: Path) -> dict:
    """Returns an exported model in the form of a checkpoint of fairseq-train: ``cfg``, ``model``,
    ``task_state``, and the export's other records. Raises ValueError if the folder is none of this package's
    exports."""
    with naming_errors(folder / CONFIG):
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        recorded = config.get("fairseq")
        if not isinstance(recorded, dict) or not isinstance(recorded.get("cfg"), dict):
            raise ValueError('it has no "fairseq": give a folder that scripts/export_huggingface.py wrote')
    with naming_errors(folder / WEIGHTS):
        tensors = {name: tensor.float() for name, tensor in load_file(folder / WEIGHTS).items()}
        for info in recorded["task_state"].values():  # properties of molecules
            if info["kind"] == "regression":
                to_units(tensors, info["mean"], info["std"], -1)
        labels = list(config.get("id2label", {}).values())
        return {**recorded, "labels": labels, "model": to_fairseq(tensors, config)}


def to_transformers(weights: dict[str, Tensor], config: dict, head: str | None) -> dict[str, Tensor]:
    """Returns the parameters of a model, float32, as its class in transformers has them.

    Args:
        weights: by their names in fairseq, without buffers.
        config: content of config.json.
        head: name of the classification head that was trained; the LM head and the transitions, which were
            not trained last, are then left out.
    """
    prefix = f"classification_heads.{head}."
    kept = (ENCODER, prefix) if head else ("encoder.",)
    found = {
        name.replace(prefix, HEAD): value.detach().float().cpu().clone()
        for name, value in weights.items()
        if name.startswith(kept)
    }
    more = config["vocab_size"] - len(found[f"{ENCODER}embed_tokens.weight"])
    if more:  # tokens of the BPE that the dictionary lacks: are read as <unk>, and never predicted
        for name in (f"{ENCODER}embed_tokens.weight", "encoder.lm_head.weight"):
            if name in found:
                found[name] = torch.cat([found[name], found[name][config["unk_token_id"]].repeat(more, 1)])
        if not head:
            bias = found["encoder.lm_head.bias"]
            found["encoder.lm_head.bias"] = torch.cat([bias, bias.new_full((more,), -1e4)])
    return found if config["model_type"] == "exlm" else _to_esm(found, config)


def to_fairseq(tensors: dict[str, Tensor], config: dict) -> dict[str, Tensor]:
    """Returns the inverse of :func:`to_transformers`."""
    recorded, embedding = config["fairseq"], f"{ENCODER}embed_tokens.weight"
    head, entries = recorded.get("head"), recorded["entries"]
    found = tensors if config["model_type"] == "exlm" else _from_esm(tensors, config)
    if not head and not recorded["cfg"]["model"].get("untie_weights_roberta"):
        found = {**found, "encoder.lm_head.weight": found[embedding]}
    vocabulary = (embedding, "encoder.lm_head.weight", "encoder.lm_head.bias")
    return {
        name.replace(HEAD, f"classification_heads.{head}."): t[:entries] if name in vocabulary else t
        for name, t in found.items()
    }


def esm_names(layers: int) -> dict[str, str]:
    """Returns {name of a weight in fairseq: in ESM}."""
    modules = dict(MODULES)
    for i in range(layers):
        modules |= {f"{LAYERS}{i}.{a}": f"esm.encoder.layer.{i}.{b}" for a, b in OF_A_LAYER.items()}
    names = {f"{a}.{end}": f"{b}.{end}" for a, b in modules.items() for end in ("weight", "bias")}
    return names | {
        "encoder.lm_head.weight": "lm_head.decoder.weight",
        "encoder.lm_head.bias": "lm_head.bias",
    }


def _rows(config: dict) -> Tensor:
    """Returns [d] which of our rows of queries and keys is each of ESM's."""
    d, heads = config["hidden_size"], config["num_attention_heads"]
    parts = config["fairseq"]["rope_dimensions"]
    # [heads, parts, 2 of a pair, pairs of a part] -> the pairs of a head's parts follow each other
    return torch.arange(d).view(heads, parts, 2, -1).transpose(1, 2).flatten()


def _is_rotated(name: str) -> bool:
    return ".self_attn.q_proj." in name or ".self_attn.k_proj." in name


def _to_esm(weights: dict[str, Tensor], config: dict) -> dict[str, Tensor]:
    names, rows = esm_names(config["num_hidden_layers"]), _rows(config)
    parts, heads = config["fairseq"]["rope_dimensions"], config["num_attention_heads"]
    frequencies = RotaryEmbedding(config["hidden_size"] // heads, parts).frequencies()
    found = {names.get(name, name): t[rows] if _is_rotated(name) else t for name, t in weights.items()}
    found[FREQUENCIES] = torch.cat([frequencies, torch.zeros(len(frequencies) * (parts - 1))])
    # contacts of a protein's residues, which ESM predicts: 0, as loading would warn of missing ones
    found[f"{CONTACTS}weight"] = torch.zeros(1, config["num_hidden_layers"] * heads)
    found[f"{CONTACTS}bias"] = torch.zeros(1)
    return found


def _from_esm(tensors: dict[str, Tensor], config: dict) -> dict[str, Tensor]:
    names = {theirs: ours for ours, theirs in esm_names(config["num_hidden_layers"]).items()}
    rows = _rows(config).argsort()
    found = {
        names.get(name, name): t
        for name, t in tensors.items()
        if not name.startswith((FREQUENCIES, CONTACTS))
    }
    return {name: t[rows] if _is_rotated(name) else t for name, t in found.items()}


def to_units(tensors: dict[str, Tensor], mean: list[float], std: list[float], sign: int = 1) -> None:
    """Makes the last layer of a regression give values in the units of its labels, in place; with sign -1,
    makes these the standardised values that were trained."""
    mean, std = (torch.tensor(values, dtype=torch.float64) for values in (mean, std))
    weight, bias = (tensors[f"{HEAD}out_proj.{name}"].double() for name in ("weight", "bias"))
    tensors[f"{HEAD}out_proj.weight"] = (weight * std[:, None] ** sign).float()
    tensors[f"{HEAD}out_proj.bias"] = (bias * std + mean if sign > 0 else (bias - mean) / std).float()
