"""A checkpoint as a folder for transformers: weights, settings, tokenizer, code, and a card."""

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import safetensors.torch
import torch

from fs_plugins import files
from fs_plugins.data.text_codecs import Smiles
from fs_plugins.huggingface import exported_config, model_card, tokenizer_files, weights
from fs_plugins.huggingface.code_files import write_code
from fs_plugins.huggingface.restore import open_checkpoint

logger = logging.getLogger(__name__)


def export(
    checkpoint: str | os.PathLike,
    folder: str | os.PathLike,
    *,
    data: str | os.PathLike | None = None,
    bpe: str | Sequence[str] | None = None,
    pooling: str = "mean",
    name: str | None = None,
    licence: str | None = None,
    half: bool = False,
    onnx: bool = False,
    notes: str = "",
) -> Path:
    """Writes a folder that transformers loads with ``trust_remote_code=True``, atomically.

    Args:
        checkpoint: a model, as of :func:`open_checkpoint`: pre-trained, or fine-tuned on GLUE, SQuAD or
            molecules.
        folder: to be made, and returned; one that is there has to be empty.
        data: folder of the pre-training's ``dict.txt``; by default the one that the checkpoint names.
        bpe: how the corpus was written, as of :func:`fs_plugins.data.text_codecs.make_codec`; by default what
            lies beside the dictionary.
        pooling: of SentenceTransformer: "first" or "mean".
        name, licence: of the model, for its card; the name is by default the folder's.
        half: whether to store the weights as float16, in half the space, but for the last layer of a head;
            transformers computes with them in float32, unless it is told otherwise.
        onnx: whether to write model.onnx too, as of :func:`fs_plugins.huggingface.onnx.write_onnx`.
        notes: Markdown that the card ends with.

    Raises:
        FileExistsError: if the folder is not empty.
        ValueError: for another kind of model, or weights that float16 cannot hold.
    """
    if onnx:  # fails before the work if its optional packages are missing
        from fs_plugins.huggingface.onnx import write_onnx
    folder = Path(folder).absolute()
    loaded = open_checkpoint(checkpoint, data, "cpu")
    codec = loaded.codec(bpe)
    tensors = dict(loaded.model.named_parameters())
    tensors = weights.to_transformers(tensors, loaded.head, loaded.has_transitions)
    config, info = exported_config.model_config(loaded), loaded.properties
    if info is not None and info.regression:
        weights.to_units(tensors, info)
        eps, rows = torch.finfo(torch.float32).eps, zip(info.names, info.mean, info.std, strict=True)
        if rough := [name for name, mean, std in rows if abs(mean) * eps > std / 100]:
            logger.warning(
                "%s: transformers computes in float32, which rounds values of %s by more than 1%% of their "
                "standard deviation: subtract a constant from the labels, and train again",
                *(folder.name, ", ".join(rough)),
            )
    tokenizer = tokenizer_files.make_tokenizer(loaded.dictionary, codec)
    config["tokenizer_size"] = 1 + max(tokenizer.get_vocab().values())
    texts = {
        "config.json": config,
        "tokenizer.json": json.loads(tokenizer.to_str()),
        "tokenizer_config.json": tokenizer_files.tokenizer_config(
            exported_config.longest_text(config),
            canonical=isinstance(codec, Smiles) and config["fairseq"]["smiles"] == "canonical",
            allow_valence=info is not None and info.allow_valence,
        ),
        **exported_config.sentence_transformers_files(config, pooling),
    }
    if half:
        kept = "classifier.out_proj."  # weights of a regression are in the units of its labels
        tensors = {name: t if name.startswith(kept) else t.half() for name, t in tensors.items()}
        if lost := [name for name, tensor in tensors.items() if not tensor.isfinite().all()]:
            raise ValueError(f"{checkpoint}: float16 cannot hold {', '.join(lost)}: export in full precision")
    about = {"name": name or folder.name, "licence": licence, "notes": notes}
    card = model_card.write(loaded, config, codec, tensors, **about)
    with files.new_folder(folder) as fresh:
        for name, content in texts.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            files.write_json(fresh / name, content, indent=2)
        files.write_text(fresh / "README.md", card)
        write_code(fresh)
        with files.atomic(fresh / "model.safetensors", "wb") as file:
            file.write(safetensors.torch.save(tensors, metadata={"format": "pt"}))
        if onnx:
            write_onnx(fresh)
    return folder
