"""A checkpoint as a folder for transformers: weights, settings, tokenizer, dictionary, and a card."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import safetensors.torch
from omegaconf import OmegaConf

from fs_plugins import files
from fs_plugins.checkpoint import Checkpoint, load
from fs_plugins.checkpoint_folder import CONFIG, FREQUENCIES, HEAD, WEIGHTS, to_transformers, to_units
from fs_plugins.data.text_codecs import Blanks, ByteBpe, Codec, Smiles
from fs_plugins.data.vocabulary import DICT_FILE, TOKENIZER, Vocabulary
from fs_plugins.exlm.settings import TRANSFORMERS
from fs_plugins.finetuning.outputs import PROBLEMS
from fs_plugins.huggingface import card, tokenizer_files
from fs_plugins.huggingface.code_files import AUTO_MAP, write_code
from fs_plugins.models.flags import option

ESM = {
    "model_type": "esm",
    "position_embedding_type": "rotary",
    "token_dropout": False,
    "emb_layer_norm_before": False,
    "layer_norm_eps": 1e-5,
}
FIXED = {"encoder_normalize_before": True, "activation_fn": "gelu", "pooler_activation_fn": "tanh"}  # in ESM


def export(
    checkpoint: str | os.PathLike,
    folder: str | os.PathLike,
    *,
    data: str | os.PathLike | None = None,
    bpe: str | Sequence[str] | None = None,
    licence: str | None = None,
    half: bool = False,
    notes: str = "",
) -> Path:
    """Writes a folder that transformers loads, atomically: an MLM as EsmForMaskedLM, an ExLM with its code,
    for ``trust_remote_code=True``; fine-tuned on GLUE or molecules, as ...ForSequenceClassification.

    Args:
        checkpoint: a model, as of :func:`fs_plugins.checkpoint.load`.
        folder: to be made, and returned; one that is there has to be empty.
        data: folder of the pre-training's ``dict.txt``; by default the one that the checkpoint names.
        bpe: how the corpus was written, as of :func:`fs_plugins.data.text_codecs.make_codec`; by default what
            lies beside the dictionary.
        licence: of the model, for its card.
        half: whether to store the weights as float16, in half the space, but for a head; transformers
            computes with them in float32, unless it is told otherwise.
        notes: Markdown that the card ends with.

    Raises:
        FileExistsError: if the folder is not empty.
        ValueError: for a model that transformers has no class for, or weights that float16 cannot hold.
    """
    folder = Path(folder).absolute()
    loaded = load(checkpoint, data, "cpu")
    codec, head = loaded.codec(bpe), loaded.head
    tokenizer = tokenizer_files.make_tokenizer(loaded.dictionary, codec)
    config = model_config(loaded, codec, len(tokenizer.get_vocab()))
    tensors = to_transformers(dict(loaded.model.named_parameters()), config, head)
    if (info := loaded.properties) and info.regression:
        to_units(tensors, info.mean, info.std)
    if half:
        exact = (f"{HEAD}out_proj.", FREQUENCIES)
        tensors = {name: t if name.startswith(exact) else t.half() for name, t in tensors.items()}
        if lost := [name for name, tensor in tensors.items() if not tensor.isfinite().all()]:
            raise ValueError(f"{checkpoint}: float16 cannot hold {', '.join(lost)}: export in full precision")
    with files.new_folder(folder) as fresh:
        files.write_json(fresh / CONFIG, config, indent=2)
        files.write_json(fresh / TOKENIZER, json.loads(tokenizer.to_str()), indent=2)
        longest = tokenizer_files.tokenizer_config(longest_text(loaded))
        files.write_json(fresh / "tokenizer_config.json", longest, indent=2)
        Vocabulary.of(loaded.dictionary.symbols, fresh).write(fresh / DICT_FILE)
        if isinstance(codec, ByteBpe) and len(codec.files) > 1:
            for path in codec.files:
                files.copy(path, fresh / path.name)
        files.write_text(fresh / "README.md", card.write(loaded, config, codec, folder.name, licence, notes))
        if config["model_type"] == "exlm":
            write_code(fresh)
        with files.atomic(fresh / WEIGHTS, "wb") as file:
            file.write(safetensors.torch.save(tensors, metadata={"format": "pt"}))
    return folder


def model_config(checkpoint: Checkpoint, codec: Codec, tokens: int) -> dict:
    """Returns the content of config.json, for a tokenizer of so many ``tokens``: settings of the class in
    transformers, and as "fairseq" the flags and records of the checkpoint. Raises ValueError for a model that
    transformers has no class for."""
    settings, head, info = asdict(checkpoint.model.encoder.settings), checkpoint.head, checkpoint.properties
    if not checkpoint.is_pretrained and head is None:
        raise ValueError(f"{checkpoint.path}: --task {checkpoint.task} has no head that is exported")
    if checkpoint.k is not None:
        if not checkpoint.has_transitions:
            raise ValueError(f"{checkpoint.path} is without transitions (CTC), which is not exported")
        config = {"model_type": "exlm", "auto_map": AUTO_MAP, **settings}
    else:
        other = [
            f"{option(name)} {settings[name]}" for name, value in FIXED.items() if settings[name] != value
        ]
        other += [f"--repeat-times {checkpoint.copies}"] * (checkpoint.copies > 1)
        if other:
            raise ValueError(
                f"{checkpoint.path} has {other[0]}: an MLM is exported as ESM, which is pre-norm "
                "(--encoder-normalize-before, as mlm_smiles and mlm_tiny are), with GELU and no copies"
            )
        config = {**ESM, **{theirs: settings[ours] for theirs, ours in TRANSFORMERS.items()}}
        config |= {name: index for name, index in settings.items() if name.endswith("_token_id")}
        config["tie_word_embeddings"] = not settings["untie_weights_roberta"]
    kind = "ExLM" if checkpoint.k else "Esm"
    config |= {
        "architectures": [f"{kind}For{'SequenceClassification' if head else 'MaskedLM'}"],
        "dtype": "float32",
        "vocab_size": tokens,
    }
    task, criterion = (OmegaConf.to_container(checkpoint.cfg[name]) for name in ("task", "criterion"))
    config["fairseq"] = {
        "cfg": {"model": vars(checkpoint.cfg.model), "task": task | {"data": ""}, "criterion": criterion},
        "optimizer_history": [{"num_updates": checkpoint.updates}],
        "entries": len(checkpoint.dictionary),
        "rope_dimensions": settings["rope_dimensions"],
        "head": head,
        "task_state": {checkpoint.task: info.to_dict()} if info else {},
        "smiles": checkpoint.smiles_form,
        "bpe": {Smiles: "smiles", Blanks: "none"}.get(type(codec)),  # else files beside it
    }
    if head:
        outputs = checkpoint.outputs
        config["problem_type"] = PROBLEMS[outputs.kind]
        config["id2label"] = {str(i): name for i, name in enumerate(outputs.names)}
        config["label2id"] = {name: i for i, name in enumerate(outputs.names)}
    return config


def longest_text(checkpoint: Checkpoint) -> int:
    """Returns the most tokens of a text without masks, ``<s>`` and ``</s>`` counted: as many as a fine-tuning
    read, or what leaves room for the states of the ends of a pair."""
    most = checkpoint.model.max_positions() - 4 * ((checkpoint.k or 1) - 1)
    return min(most, checkpoint.longest or most)
