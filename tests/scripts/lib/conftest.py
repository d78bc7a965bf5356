"""Inputs of the trainings that the scripts resolve: checkpoints, toy data."""

import pytest
import torch
from lib.run.checkpoints import EMBEDDINGS

from tests.support import builders, prepared

SYMBOLS = ["a", "b", "c"]
SIZES = {"encoder_layers": 2, "encoder_embed_dim": 4, "max_positions": 16, "encoder_normalize_before": True}


@pytest.fixture(scope="session")
def toy_inputs(tmp_path_factory):
    """The folder that support/prepared.py fills."""
    folder = tmp_path_factory.mktemp("toys").resolve()
    prepared.make(folder)
    return folder


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """A machine without GPUs, and not one of several processes, whatever the tests run under."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def saved_checkpoint(tmp_path):
    """saved_checkpoint(...) -> path of a checkpoint with the dictionary of SYMBOLS in tmp_path/data."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "dict.txt").write_text("".join(f"{symbol} 1\n" for symbol in SYMBOLS))

    def make(arch="exlm_tiny", rows=8, embedding=EMBEDDINGS[0], task=None, sizes=None, **state):
        flags = {"arch": arch, "ext_state_num": 3, "dropout": 0.5, **SIZES, **(sizes or {})}
        task = {"_name": "masked_lm", "data": str(data), "tokens_per_sample": 12, **(task or {})}
        layers = [f"encoder.sentence_encoder.layers.{i}.fc1.bias" for i in range(flags["encoder_layers"])]
        model = {embedding: torch.zeros(rows, 4)} | {name: torch.zeros(8) for name in layers}
        path = tmp_path / "model.pt"
        return builders.save_checkpoint(path, model, flags, task, {"_name": "masked_lm"}, **state)

    return make
