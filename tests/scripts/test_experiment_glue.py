"""Fine-tuning on GLUE within the study of [MASK]: its commands, its results, its data."""

from pathlib import Path

import pytest
from recipes.glue.grids import points_of
from recipes.glue.sweep import Finetuning, Sweep, SweepGrid
from recipes.glue.tasks import TASKS
from recipes.study import folder, steps
from recipes.study.grids import Run

from tests.recipes.test_logs import log_line


def test_fine_tuning_is_that_of_run_glue_with_table_6():
    study = steps.Study(Path("out"), "small", Path("data"), Path("glue"), finetune_seeds=(7,))
    run = Run("exlm", 4, 0.15)
    [step] = [s for s in steps.steps_of(study, run, {"quality"}) if s.name == "glue-RTE-s7"]
    [point] = points_of(TASKS["RTE"], "table6")
    other = Sweep(Path("sweep"), study.folder(run) / "checkpoint.pt", Path("glue"))
    one = Finetuning("RTE", **vars(point), seed=7)
    for device in (None, "0"):
        words = steps.command_of(study, run, step, device)
        wanted = SweepGrid(other, {one: set()}, [device]).command(one, None, device)
        save = wanted.index(str(other.folder(one)))
        assert words[save] == str(study.folder(run) / "glue-RTE-s7")
        assert words[:save] + words[save + 1 :] == wanted[:save] + wanted[save + 1 :]
        assert ("--cpu" in words) == (device is None)


def test_a_fine_tunings_result_is_in_percent(tmp_path):
    study = steps.Study(tmp_path, "small", Path("data"), Path("glue"), finetune_seeds=(1,))
    run = Run("exlm", 4, 0.15)
    step = steps.steps_of(study, run, {"quality-mnli"})[-1]
    save = study.folder(run) / step.name
    save.mkdir(parents=True)
    with pytest.raises(folder.FolderError, match="left no scores of valid and valid1"):
        steps.finish(study, run, step)
    scores = {"valid": {"accuracy": 0.75}, "valid1": {"accuracy": 0.5}}
    folder.write_json(save / "result.json", {"scores": scores, "command": ["fairseq-train"]})
    lines = [log_line("valid", valid_score=s, valid_num_updates=u) for s, u in ((75, 3), (70, 6))]
    step.log.write_text("".join([*lines, log_line("valid1", valid1_score=55.5, valid1_num_updates=6)]))
    steps.finish(study, run, step)
    result = folder.read_json(step.result)
    assert result["best"] == {"valid": 75, "valid1": 50} and result["last"] == {"valid": 70, "valid1": 55.5}
    assert (result["task"], result["seed"]) == ("MNLI", 1) and not save.exists()


def test_what_glue_has_to_hold(tmp_path):
    data = tmp_path / "data-bin"
    data.mkdir()
    (data / "dict.txt").write_text("word 5\n")
    for task in steps.GLUE_TASKS:
        inputs = tmp_path / "glue" / f"{task}-bin" / "input0"
        inputs.mkdir(parents=True)
        (inputs / "dict.txt").write_bytes((data / "dict.txt").read_bytes())
        for split in ("train", *TASKS[task].valid_splits):
            (inputs / f"{split}.idx").touch()
    steps.check_glue(tmp_path / "glue", data)
    (tmp_path / "glue" / "MNLI-bin" / "input0" / "valid1.idx").unlink()
    with pytest.raises(folder.FolderError, match="has no valid1 set of MNLI"):
        steps.check_glue(tmp_path / "glue", data)
    (tmp_path / "glue" / "MNLI-bin" / "input0" / "dict.txt").write_text("other 1\n")
    with pytest.raises(folder.FolderError, match="is not the dictionary of"):
        steps.check_glue(tmp_path / "glue", data)
