"""What goes wrong with GLUE's files, runs and results: each mistake has one line, and costs no more."""

import errno
import gzip
import json
import os
from pathlib import Path

import finetune_glue
import pytest
import report_glue
import torch
from fairseq.data import data_utils
from recipes.checkpoints import read_checkpoint
from recipes.corpora.blocks import locked
from recipes.glue.files import GlueError
from recipes.glue.grids import Point, points_of
from recipes.glue.predictions import predict
from recipes.glue.tasks import TASKS
from recipes.glue.training import positions_of, read_start, rows_cut, steps_of
from recipes.study.folder import locked as held

from tests.scripts.test_finetuning_checkpoints import SIZES, save  # noqa: F401
from tests.scripts.test_glue_sweep import keys, place, sweep_of  # noqa: F401
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


# ---- what a fine-tuning starts from


def test_a_model_is_what_it_is_given_for(save, tmp_path):  # noqa: F811
    fine = {"_name": "sentence_prediction", "num_classes": 2}
    with pytest.raises(
        ValueError, match=r"was fine-tuned \(--task sentence_prediction\): give the checkpoint"
    ):
        read_start(save(task=fine), None)
    two = save(task=fine).rename(tmp_path / "two.pt")
    mnli = save(task={**fine, "num_classes": 3}).rename(tmp_path / "mnli.pt")
    other = save(task={**fine, "num_classes": 3}, rows=9).rename(tmp_path / "other.pt")
    plain = save()
    assert read_start(plain, mnli) == read_start(plain, None)
    with pytest.raises(ValueError, match="two.pt was trained with 2 classes, not on MNLI, which has 3"):
        read_start(plain, two)
    with pytest.raises(ValueError, match="model.pt was trained by masked_lm, not on MNLI"):
        read_start(plain, plain)
    with pytest.raises(ValueError, match="other.pt is a model of other sizes than"):
        read_start(plain, other)


def test_an_mlm_reads_rows_as_long_as_an_exlm(save, tmp_path, monkeypatch):  # noqa: F811
    fine = {"_name": "sentence_prediction", "num_classes": 3}
    assert positions_of(read_checkpoint(save())) == 16
    mlm = save("mlm_tiny").rename(tmp_path / "mlm.pt")
    assert positions_of(read_checkpoint(mlm)) == 512
    assert positions_of(read_checkpoint(save("mlm_tiny", task={"repeat_times": 3}))) == 3 * 512
    monkeypatch.setitem(SIZES, "max_positions", 512)  # as a fine-tuning on MNLI leaves it
    mnli = save("mlm_tiny", task=fine).rename(tmp_path / "mnli.pt")
    assert read_start(mlm, mnli).max_positions == 16


def test_the_batch_of_an_update_in_steps():
    point = Point("1e-4", "32", "2", "0.06")
    assert steps_of(point, ()) == 1
    assert steps_of(point, ("--dropout", "0", "--update-freq", "2")) == 2
    assert steps_of(point, ("--update-freq", "2", "--update-freq=4")) == 4
    for wrong in ("3", "0", "64", "two"):
        with pytest.raises(ValueError, match=f"--update-freq {wrong}: the batch of 32 sentences"):
            steps_of(point, ("--update-freq", wrong))


def test_rows_that_are_cut_are_counted(asked):
    assert prepare(*asked) == 0
    data = asked[1] / "RTE-bin"
    parts = [data_utils.load_indexed_dataset(str(data / f"input{i}" / "train"), None) for i in (0, 1)]
    lengths = [1 + len(parts[0][i]) + 1 + len(parts[1][i]) for i in range(2)]
    assert lengths[0] != lengths[1]
    for limit, cut in ((max(lengths), 0), (max(lengths) - 1, 1), (min(lengths) - 1, 2)):
        assert rows_cut(data, "train", ["--max-positions", "9", "--max-positions", str(limit)]) == (
            cut,
            limit,
        )
    repeated = ["--repeat-times", "3", "--max-positions", str(3 * max(lengths) - 1)]
    assert rows_cut(data, "train", repeated) == (1, max(lengths) - 1)


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


# ---- the folder of a run


@pytest.fixture
def finetune(tmp_path, capsys, monkeypatch):
    """finetune_glue.py whose training leaves checkpoints and a score of 0.5; what it says."""
    data = tmp_path / "bin" / "RTE-bin"
    data.mkdir(parents=True)
    (data / "summary.json").write_text("{}")
    (tmp_path / "model.pt").write_text("weights")

    def trained(args, task, flags, fingerprint):
        for name in ("best", "last"):
            (args.save / f"checkpoint_{name}.pt").write_text("weights")
        if args.test:
            (args.save / "submission").mkdir()
            (args.save / "submission" / "RTE.tsv").write_text("index\tprediction\n")
        return {"task": task.name, "scores": {"valid": {"accuracy": 0.5}}, "rows": {"valid": 277}}

    monkeypatch.setattr(finetune_glue, "flags_of", lambda args, task, extra: [])
    monkeypatch.setattr(finetune_glue, "finetune", trained)
    monkeypatch.setattr(finetune_glue, "log_as_fairseq", lambda: None)

    def call(*flags, save="save", code=0) -> str:  # noqa: F811
        asked = ["RTE", tmp_path / "model.pt", tmp_path / "bin", tmp_path / save, "--cpu", *flags]
        assert finetune_glue.main(list(map(str, asked))) == code
        said = capsys.readouterr()
        return said.out + said.err

    return call


def test_a_finished_run_is_not_taken_for_another(finetune, tmp_path):
    assert "accuracy 50.00" in finetune()
    assert not list((tmp_path / "save").glob("*.pt"))
    assert "finished before" in finetune()
    assert "seed: there 1, asked 2" in finetune("--seed", 2, code=2)
    assert "point: there" in finetune("--lr", "1e-3", code=2)
    assert "flags: there []" in finetune("--update-freq", 2, code=2)
    assert "was finished without --test and --keep" in finetune("--test", "--keep-checkpoint", code=2)
    (tmp_path / "bin/RTE-bin/summary.json").write_text("[]")
    assert "data: there" in finetune(code=2)
    both = ("--test", "--keep-checkpoint")
    finetune(*both, save="b")
    assert "finished before" in finetune(*both, save="b")
    assert [path.name for path in (tmp_path / "b").glob("*.pt")] == ["checkpoint_best.pt"]


def test_an_interrupted_run_goes_on_with_its_own_settings(finetune, tmp_path, monkeypatch):
    def stopped(args, task, flags, fingerprint):
        (args.save / "checkpoint_last.pt").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(finetune_glue, "finetune", stopped)
        assert "the same command goes on" in finetune(code=130)
    assert "seed: there 1, asked 2" in finetune("--seed", 2, code=2)
    assert (tmp_path / "save" / "checkpoint_last.pt").read_text() == "half"
    assert "accuracy 50.00" in finetune()


def test_checkpoints_of_another_run_are_not_gone_on_from_or_removed(finetune, tmp_path):
    (tmp_path / "save").mkdir()
    (tmp_path / "save" / "checkpoint_last.pt").write_text("pre-trained")
    assert "holds checkpoints of another run: choose another SAVE" in finetune(code=2)
    assert (tmp_path / "save" / "checkpoint_last.pt").read_text() == "pre-trained"


def test_the_result_is_written_before_checkpoints_go(finetune, tmp_path, monkeypatch):
    def killed(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        finetune(code=130)
    assert "finished before" in finetune()


@pytest.mark.parametrize(
    "flag", [["--restore-file", "x.pt"], ["--save-dir=x"], ["--finetune-from-model", "x"]]
)
def test_flags_that_are_the_scripts_own(flag, tmp_path, capsys):
    asked = ["RTE", "model.pt", "bin", str(tmp_path / "save"), "--cpu", *flag]
    assert finetune_glue.main(asked) == 2
    assert f"{flag[0]} is set by this script" in capsys.readouterr().err
    assert not (tmp_path / "save").exists()


def test_two_runs_in_one_folder(finetune, tmp_path):
    (tmp_path / "save").mkdir()
    with held(tmp_path / "save"):
        assert "another run is at work in" in finetune(code=2)


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
    with pytest.raises(GlueError, match="c.pt gives 1 of the 2 rows of the valid set no finite output"):
        predict(Path("c.pt"), tmp_path, TASKS["RTE"], ["valid"], cpu=True)


# ---- sweeps and the table

GRID = ("--tasks", "RTE", "--only", "batch=16,epochs=3,warmup=0.06")


def test_results_of_other_data_are_not_mixed(place, capsys):  # noqa: F811
    assert sweep_of(place, *GRID, "--seeds", "1") == 0
    for path in (place / "out" / "runs").glob("*/result.json"):
        result = json.loads(path.read_text())
        path.write_text(json.dumps({**result, "data": {"train_rows": 60, "fingerprint": "0"}}))
    # the table says what was trained on, not what is there now
    assert report_glue.Model("m", place / "out").score("RTE").train_rows == 60
    capsys.readouterr()
    assert sweep_of(place, *GRID, "--seeds", "1,2") == 2
    assert "fine-tuned on other data than" in capsys.readouterr().err


def test_a_grid_that_is_not_finished_is_marked(place, capsys):  # noqa: F811
    asked = (*GRID, "--seeds", "1")
    assert sweep_of(place, *asked) == 0
    assert "points)" not in report_glue.text_of([report_glue.Model("m", place / "out")])
    run = place / "out/runs/RTE-lr3e-5-b16-e3-w0.06-s1"
    (run / "result.json").rename(run / "away.json")
    assert "| 51.0 (3 of 4 points) |" in report_glue.text_of([report_glue.Model("m", place / "out")])
    (run / "result.json").write_text("{")
    assert report_glue.main([str(place / "out")]) == 2
    assert "result.json is damaged" in capsys.readouterr().err
    assert sorted(keys(place))


def test_names_of_models(place, capsys):  # noqa: F811
    assert sweep_of(place, *GRID, "--seeds", "1") == 0
    (place / "out").rename(place / "k=4")
    capsys.readouterr()
    for given in (f"ExLM={place / 'k=4'}", f"{place / 'k=4'}"):
        assert report_glue.main([given]) == 0
    assert "**ExLM** (ours)" in (said := capsys.readouterr().out) and "**k=4** (ours)" in said
    assert report_glue.main([f"{place / 'k=4'}"] * 2) == 2
    assert "two models have one name" in capsys.readouterr().err
