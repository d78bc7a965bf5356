"""What goes wrong with GLUE's files, runs and results: each mistake has one line, and costs no more."""

import errno
import gzip
import json
import os
from pathlib import Path

import pytest
import torch
from fairseq.data import data_utils
from recipes.command_line import RecipeError
from recipes.corpora.blocks import locked
from recipes.glue.evaluate import row_lengths
from recipes.glue.grids import points_of
from recipes.glue.predictions import predict
from recipes.glue.tasks import TASKS

from tests.scripts.test_prepare_glue import LABELLED, lines, prepare, refused, vocabulary, write_task  # noqa: F401

# ---- the files


@pytest.fixture
def asked(vocabulary, tmp_path):  # noqa: F811
    write_task(tmp_path / "glue", "RTE")
    return tmp_path / "glue", tmp_path / "out", "--data", vocabulary


def test_packed_files(asked, capsys):
    folder = asked[0] / "RTE"
    content = (folder / "dev.tsv").read_bytes()
    (folder / "dev.tsv").write_bytes(gzip.compress(content))  # whatever its name says
    assert prepare(*asked) == 0
    assert json.loads((asked[1] / "RTE-bin/summary.json").read_text())["valid"]["rows"] == 2
    (folder / "dev.tsv").unlink()
    packed = bytearray(gzip.compress(content * 500))
    packed[40:60] = b"\xff" * 20
    for broken, message in (
        (packed, "broken or cut short gzip"),
        (gzip.compress(gzip.compress(content)), "dev.tsv.gz, line 1: not UTF-8"),
        (content, "named .gz but is not gzip"),
    ):
        (folder / "dev.tsv.gz").write_bytes(broken)
        assert message in refused(capsys, *asked)


def test_a_line_that_is_empty_and_a_header_without_end(asked, capsys):
    path = asked[0] / "RTE" / "dev.tsv"
    path.write_text(path.read_text() + "\n")
    assert "dev.tsv, line 4 is empty: remove it" in refused(capsys, *asked)
    path.write_text(lines(*LABELLED["RTE"]).replace("\n", "\r") + "x" * 10_000, newline="")
    message = refused(capsys, *asked)
    assert "no column 'label'" in message and len(message) < 600


def test_dev_ids_of_another_file(vocabulary, tmp_path, capsys):  # noqa: F811
    folder = tmp_path / "glue" / "MRPC"
    folder.mkdir(parents=True)
    rows = [f"{i % 2}\t{i}\t{i + 100}\tThe inn .\tIt {i} ." for i in range(10)]
    (folder / "msr_paraphrase_train.txt").write_text(lines(LABELLED["MRPC"][0], rows), encoding="utf-8")
    (folder / "dev_ids.tsv").write_text("3\t103\n107\t7\n")
    message = refused(capsys, tmp_path / "glue", tmp_path / "out", "--data", vocabulary)
    assert "msr_paraphrase_train.txt lacks 1 of the 2 pairs" in message and "such as 107 7" in message


def test_two_at_once_and_what_is_not_ours(asked, capsys):
    with locked(asked[1]):
        assert "another run is at work" in refused(capsys, *asked)
    other = asked[1] / "RTE-bin" / "mine.txt"
    other.parent.mkdir()
    other.write_text("mine")
    assert "RTE-bin is not prepare_glue.py's" in refused(capsys, *asked)
    assert other.read_text() == "mine"
    other.unlink()
    other.parent.rmdir()
    assert prepare(*asked) == 0 and prepare(*asked) == 0  # its own is replaced


def test_a_full_disk(asked, capsys, monkeypatch):
    def full(*arguments, **named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("glue.binarise.indexed_dataset.make_builder", full)
    assert "no space left on the disk of" in refused(capsys, *asked)
    monkeypatch.undo()
    assert prepare(*asked) == 0


# ---- what is scored


def test_lengths_of_rows(asked):
    assert prepare(*asked) == 0
    data = asked[1] / "RTE-bin"
    parts = [data_utils.load_indexed_dataset(str(data / f"input{i}" / "train"), None) for i in (0, 1)]
    lengths = [1 + len(parts[0][i]) + 1 + len(parts[1][i]) for i in range(2)]
    assert lengths[0] != lengths[1]
    assert row_lengths(data, "train").tolist() == lengths


@pytest.mark.parametrize(
    ("name", "value", "way_out"),
    [
        ("epochs", "0", "a whole number, 1 or more"),
        ("batch", "1.5", "a whole number, 1 or more"),
        ("batch", "0", "a whole number, 1 or more"),
        ("warmup", "6", "a share of the updates"),
        ("lr", "0.0", "a number above 0"),
    ],
)
def test_points_that_cannot_be(name, value, way_out):
    with pytest.raises(ValueError, match=f"{name}={value}: give {way_out}"):
        points_of(TASKS["RTE"], only={name: value})


def test_outputs_that_are_not_finite(tmp_path, monkeypatch):
    from types import SimpleNamespace as Names

    from fairseq import checkpoint_utils

    class Broken(torch.nn.Module):
        def forward(self, src_tokens, **others):
            return torch.tensor([[1.0, 2.0], [float("nan"), 0.0]]), None

    batch = {"id": torch.arange(2), "net_input": {"src_tokens": torch.zeros(2, 1)}}
    batches = Names(next_epoch_itr=lambda shuffle: [batch])
    task = Names(load_dataset=lambda split: [0, 1], get_batch_iterator=lambda *a, **k: batches)
    cfg = Names(
        criterion=Names(classification_head_name="rte", regression_target=False), task=Names(num_classes=2)
    )
    monkeypatch.setattr(checkpoint_utils, "load_model_ensemble_and_task", lambda *a: ([Broken()], cfg, task))
    (tmp_path / "input0").mkdir()
    (tmp_path / "input0" / "valid.idx").touch()
    with pytest.raises(RecipeError, match="c.pt gives 1 of the 2 rows of the valid set no finite output"):
        predict(Path("c.pt"), tmp_path, TASKS["RTE"], ["valid"], cpu=True)
