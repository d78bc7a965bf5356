"""Mistakes on the command line: each stops the run with an error that says what to change."""

import shutil

import pytest
from fairseq.data import Dictionary

from tests.integration.commands import pretraining, train
from tests.support import builders


def test_fp16_where_there_is_no_gpu(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    flags = pretraining(corpus, tmp_path, "--fp16")
    flags.remove("--cpu")
    with pytest.raises(ValueError, match="--fp16 needs a GPU"):
        train(*flags)


@pytest.mark.parametrize("flags", [("--mask-whole-words",), ("--mask-prob", 0.0), ("--mask-prob", 1)])
def test_what_cannot_be_masked(corpus, tmp_path, flags):
    for task in ("masked_lm", "repeated_masked_lm"):
        with pytest.raises(ValueError, match=f"^{flags[0]} .*: (leave it out|give a share)"):
            train(*pretraining(corpus, tmp_path, *flags, "--task", task))


def test_a_missing_or_an_empty_split(corpus, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(corpus, data)
    for file in data.glob("valid.*"):
        file.unlink()
    flags = pretraining(data, tmp_path / "save")
    assert len(train(*flags).updates) == 8  # --disable-validation, which the message names
    flags.remove("--disable-validation")
    with pytest.raises(FileNotFoundError, match=f"(?s){data}/valid.*--disable-validation"):
        train(*flags)
    builders.write_split(data, "train", [], Dictionary.load(str(data / "dict.txt")))
    with pytest.raises(ValueError, match=f"{data}/train.bin"):
        train(*pretraining(data, tmp_path / "save"))
