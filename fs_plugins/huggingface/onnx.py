"""An exported model as ONNX, which runs without PyTorch."""

from pathlib import Path

import onnxscript  # noqa: F401  (torch.onnx needs it)
import torch

from fs_plugins.huggingface import modeling_exlm
from fs_plugins.huggingface.configuration_exlm import ExLMConfig


def write_onnx(folder: Path) -> None:
    """Writes model.onnx into an exported folder: the encoder with the head that was trained; of a pre-trained
    ExLM the encoder alone, as the size of its graph depends on its input.

    Inputs are ``input_ids`` and ``attention_mask`` [B, T] int64 of any size, the outputs those of the model
    in transformers. Raises ModuleNotFoundError without onnx and onnxscript.
    """
    config = ExLMConfig.from_pretrained(folder)
    [name] = config.architectures
    name = "ExLMModel" if name == "ExLMForMaskedLM" and config.num_states else name
    model = getattr(modeling_exlm, name).from_pretrained(folder).eval()
    start, token, end, pad = (getattr(config, f"{name}_token_id") for name in ("bos", "unk", "eos", "pad"))
    tokens = torch.tensor([[start, token, token, end], [start, token, end, pad]])
    example = {"input_ids": tokens, "attention_mask": (tokens != pad).long()}
    axes = {name: {0: "batch", 1: "length"} for name in example}
    path = str(folder / "model.onnx")
    torch.onnx.export(model, kwargs=example, dynamic_shapes=axes, f=path, dynamo=True, verbose=False)
