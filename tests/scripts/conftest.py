"""Vocabularies for the scripts that prepare data."""

from pathlib import Path

import pytest
from lib.data.bpe import dictionary_of

from fs_plugins.data.text_codecs import read_bpe
from tests.support.builders import write_gpt2


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """A machine without GPUs, and not one of several processes, whatever the tests run under."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def bpe(tmp_path) -> Path:
    """The folder of a small BPE in GPT-2's files."""
    return write_gpt2(tmp_path / "bpe", [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n")])


@pytest.fixture
def vocabulary(bpe) -> Path:
    """The folder of a BPE and its dict.txt, as prepare_text.py leaves them."""
    (bpe / "dict.txt").write_text(dictionary_of(read_bpe(bpe)), encoding="utf-8")
    return bpe
