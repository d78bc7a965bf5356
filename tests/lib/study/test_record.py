"""An output folder holds results of one kind of settings."""

import json
import shutil
from dataclasses import replace

import pytest
from lib.command_line import UserError
from lib.folders import CONFIGS
from lib.study import record as record_module
from lib.study.record import records
from lib.study.settings import Settings


def begin(settings, *targets):
    for record in records(settings, targets):
        record.check()
        record.write()


def finish(path):
    path.parent.mkdir(parents=True)
    path.write_text("{}")


def refusal(settings, *targets) -> str:
    with pytest.raises(UserError) as error:
        begin(settings, *targets)
    return str(error.value)


def test_the_study(tmp_path, data, glue, monkeypatch):
    settings = Settings(tmp_path / "out", "small", data)
    begin(replace(settings, updates=3), "table2")
    begin(replace(settings, updates=30), "table2")  # nothing was trained before
    finish(tmp_path / "out/study/exlm-k4-p0.15/lr-default/seed-1/train.json")
    message = refusal(settings, "figure4")
    assert "holds results of other settings" in message and "updates: there 30, asked None" in message
    settings = replace(settings, updates=30)
    begin(replace(settings, seeds=(2,)), "figure4")
    record = json.loads((tmp_path / "out/study.json").read_text())
    assert (record["size"], record["data"], record["glue"]) == ("small", str(data), None)
    assert record["seeds"] == [1, 2] and record["targets"] == ["table2", "figure4"]

    begin(settings, "graphs")  # has models of its own
    fixed = json.loads((tmp_path / "out/study.json").read_text())["fixed"]
    assert {name for name in fixed if name.startswith("configs of exlm-l")} == {
        "configs of exlm-lattice",
        "configs of exlm-local",
    }
    monkeypatch.setattr(record_module, "CONFIGS", shutil.copytree(CONFIGS, tmp_path / "configs"))
    (tmp_path / "configs/model/exlm-lattice.flags").write_text("--arch exlm_large")
    begin(settings, "table2")
    assert "configs of exlm-lattice: there" in refusal(settings, "graphs")
    monkeypatch.undo()

    begin(replace(settings, glue=glue), "table2")  # may be added
    assert "glue: there" in refusal(replace(settings, glue=tmp_path), "table2")
    assert "size: there 'small', asked 'paper'" in refusal(replace(settings, size="paper"), "table2")
    assert "flags: there '', asked '--fp16'" in refusal(replace(settings, flags="--fp16"), "table2")
    (data / "dict.txt").write_text("another 5\n")
    assert "dictionary: there" in refusal(settings, "table2")


def test_the_quickstarts_corpus(tmp_path, data):
    begin(Settings(tmp_path / "out"), "study")
    finish(tmp_path / "out/study/exlm-k4-p0.15/lr-default/seed-1/train.json")
    begin(Settings(tmp_path / "out"), "study")
    assert "dictionary: there None" in refusal(Settings(tmp_path / "out", data=data), "study")


def test_table_3(tmp_path, glue, checkpoint):
    settings = Settings(tmp_path, glue=glue, models={"exlm": checkpoint}, tasks=("RTE",))
    begin(replace(settings, finetune_seeds=(7,)), "table3")  # nothing was fine-tuned before
    begin(settings, "table3")
    finish(tmp_path / "table3/exlm/glue/RTE/lr2e-5/seed-1/result.json")
    begin(replace(settings, tasks=("CoLA",)), "table3")
    record = json.loads((tmp_path / "table3/exlm/model.json").read_text())
    names = ("name", "checkpoint", "data", "grid", "only", "seeds")
    expected = ["exlm", str(checkpoint), str(glue), "table11", {}, [1, 2, 3, 4, 5]]
    assert [record[name] for name in names] == expected
    squad = replace(settings, glue=None, tasks=(), squad=tmp_path, flags="--window-tokens 128")
    begin(squad, "table3")  # SQuAD's flags are its own
    record = json.loads((tmp_path / "table3/exlm/model.json").read_text())
    assert [record[name] for name in names] == expected and record["squad"] == str(tmp_path)
    message = refusal(replace(settings, flags="--window-tokens 128"), "table3")
    assert "flags of GLUE: there '', asked '--window-tokens 128'" in message
    message = refusal(replace(settings, grid="table6"), "table3")
    assert "grid: there 'table11', asked 'table6'" in message
    assert "first seed: there 1, asked 3" in refusal(replace(settings, finetune_seeds=(3, 4)), "table3")
    (glue / "RTE-bin" / "input0" / "train.idx").write_bytes(b"other rows")
    assert "data of RTE: there" in refusal(settings, "table3")
    begin(replace(settings, tasks=("CoLA",)), "table3")
    checkpoint.write_bytes(b"other weights")
    assert "checkpoint: there" in refusal(replace(settings, tasks=("CoLA",)), "table3")


def test_table_1(tmp_path, checkpoint):
    (tmp_path / "bace").mkdir()
    (tmp_path / "bace" / "molecules.json").write_text("{}")
    sets = {"bace": tmp_path / "bace"}
    settings = Settings(tmp_path / "out", models={"exlm": checkpoint}, moleculenet=sets)
    begin(settings, "table1")
    for name in ("exlm", "untrained", "forest"):
        finish(tmp_path / f"out/table1/{name}/bace/seed-1/metrics.json")
    begin(settings, "table1")
    assert "max_epoch: there None, asked 2" in refusal(replace(settings, max_epoch=2), "table1")
    forest = json.loads((tmp_path / "out/table1/forest/model.json").read_text())
    assert forest["checkpoint"] is None and forest["data"] == {"bace": str(tmp_path / "bace")}
    (tmp_path / "bace" / "molecules.json").write_text("{} ")
    assert "data of bace: there" in refusal(settings, "table1")
