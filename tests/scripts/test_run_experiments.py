"""The runner expands the paper's grids, skips what is finished, survives kills, and says what is wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import run_experiments
from recipes.study import folder, runner, steps
from recipes.study.grids import EXPERIMENTS, Run, expand

ROOT = Path(__file__).resolve().parents[2]

# Figure 4 of the paper, as it is printed.
FIGURE_4 = {
    (1, 0.0225): 2.25,
    (1, 0.15): 15,
    (1, 0.387): 38.7,
    (1, 0.622): 62.2,
    (1, 0.789): 78.9,
    (2, 0.15): 2.25,
    (2, 0.387): 15,
    (2, 0.622): 38.7,
    (2, 0.789): 62.2,
    (4, 0.387): 2.25,
    (4, 0.622): 15,
    (4, 0.789): 38.7,
    (8, 0.622): 2.25,
    (8, 0.789): 15,
}


# ---- grids


def test_repeated_mlm_has_the_14_runs_of_figure_4():
    runs = list(expand(["figure4"]))
    assert len(runs) == 14
    assert {(run.k, run.p) for run in runs} == FIGURE_4.keys()
    assert all(100 * run.p**run.k == pytest.approx(FIGURE_4[run.k, run.p], rel=0.02) for run in runs)


def test_shared_runs_stand_once_with_all_their_measures():
    runs = expand(["all"])
    # repeated, ExLM by k and p, ablations, ++
    assert len(runs) == len({run.key for run in runs}) == 14 + 12 + 3 + 1
    vanilla = Run("repeated-mlm", 1, 0.15)
    assert sum(vanilla in experiment.runs for experiment in EXPERIMENTS.values()) == 10
    assert runs[vanilla] == {"entropy", "quality", "quality-mnli"}
    assert runs[Run("exlm-sparse", 4, 0.15)] == {"quality"}


def test_seeds_and_filters():
    runs = expand(["table4"], seeds=(3, 5), only={"k": "4", "p": "0.15"})
    assert [run.key for run in runs] == ["exlm-k4-p0.15-s3", "exlm-k4-p0.15-s5"]


@pytest.mark.parametrize(
    ("names", "only", "message"),
    [
        (["figure7"], {}, "unknown figure or table 'figure7'"),
        (["all"], {"k": "17"}, "k = 17: give a whole number from 1 to 16"),
        (["all"], {"k": "0"}, "k = 0"),
        (["all"], {"p": "1.5"}, "p = 1.5: give a share between 0 and 1"),
        (["all"], {"k": "four"}, "k is a number"),
        (["all"], {"ratio": "1"}, "a run has model, k, p"),
        (["figure4"], {"k": "3"}, "leaves no run"),
    ],
)
def test_what_cannot_be_expanded(names, only, message):
    with pytest.raises(ValueError, match=message):
        expand(names, only=only)


def test_the_quality_of_a_run_is_the_probe_or_fine_tuning():
    study = steps.Study(Path("out"), "smoke", Path("data"))
    run = Run("exlm", 4, 0.15)
    assert [s.name for s in steps.steps_of(study, run, {"quality", "entropy"})] == [
        "train",
        "entropy",
        "probe",
    ]
    study = steps.Study(Path("out"), "small", Path("data"), Path("glue"), finetune_seeds=(1, 2))
    names = [s.name for s in steps.steps_of(study, run, {"quality-mnli"})]
    assert names == ["train", "glue-MNLI-s1", "glue-MNLI-s2"]
    assert len(steps.steps_of(study, run, {"quality-mnli", "quality"})) == 1 + 4 * 2


# The hyper-parameters of a study without --glue: a change here would make folders of earlier runs useless.
FINGERPRINTS = {"smoke": "d1e2dbbb7847f7c9", "small": "3a7313cb7c7b02f0", "paper": "5ab774185ded91f9"}


@pytest.mark.parametrize("size", FINGERPRINTS)
def test_folders_of_earlier_runs_can_be_gone_on_with(size):
    assert folder.configs_fingerprint(size, run_experiments.MODELS) == FINGERPRINTS[size]


@pytest.fixture
def data(tmp_path):
    made = tmp_path / "data-bin"
    made.mkdir()
    (made / "dict.txt").write_text("word 5\n")
    for split in ("train", "valid"):
        (made / f"{split}.bin").write_bytes(b"12")
    return made


# ---- a grid with a training that is over in no time

FAKE_STEP = """
import json, os, pathlib, shutil, sys, time
save, command, template = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
save.mkdir(parents=True, exist_ok=True)
state = save / "state"
update = int(state.read_text()) if state.exists() else 0
slow = (save.parents[2] / "slow").exists()
if (save.parents[2] / f"fail-{save.parent.name}").exists():
    print("the reason why"); sys.exit(3)
print(f"starts at {update}, threads {os.environ.get('OMP_NUM_THREADS')}", flush=True)
if (save.parents[2] / "meet").exists():  # waits for another training at the same time
    (save.parent / "here").touch()  # which stays when the other one is done, unlike its checkpoints
    deadline = time.monotonic() + 60
    while len(list(save.parents[1].glob("*/here"))) < 2:
        if time.monotonic() > deadline:
            sys.exit(4)
        time.sleep(0.05)
while update < 10:
    update += 1
    state.write_text(str(update))
    figures = {"loss": str(10 - update / 10), "num_updates": str(update), "wpb": "10", "corrupted": "0.15"}
    print("2026 | INFO | train_inner | " + json.dumps(figures), flush=True)
    if slow and update == 5:
        time.sleep(60)
shutil.copy(template, save / "checkpoint_last.pt")
"""


@pytest.fixture
def study(tmp_path, data, monkeypatch):
    """A study whose trainings are the script above; the commands of its runs stay those of the real one."""
    script, template = tmp_path / "train.py", tmp_path / "template.pt"
    script.write_text(FAKE_STEP)
    template.write_bytes(b"weights")
    output = tmp_path / "out"
    (output / "runs").mkdir(parents=True)

    def fake_command(study, run, step, gpu):
        return [sys.executable, str(script), str(study.folder(run) / "checkpoints"), step.name, str(template)]

    monkeypatch.setattr(runner, "command_of", fake_command)
    monkeypatch.setattr(runner, "shown", lambda command: ["fairseq-train", "..."])
    monkeypatch.setattr(
        steps, "drop_optimizer", lambda source, target: target.write_bytes(source.read_bytes())
    )
    return steps.Study(output, "smoke", data)


def grid_of(study, *names, only=None, jobs=1):
    return runner.Grid(study, expand(names, only=only), [None] * jobs)


def test_finished_runs_are_kept_and_skipped(study, capsys):
    grid = grid_of(study, "figure4", only={"k": "8"})
    grid.execute()
    assert grid.failures == []
    run = Run("repeated-mlm", 8, 0.622)
    folder_ = study.folder(run)
    assert not (folder_ / "checkpoints").exists()
    assert (folder_ / "checkpoint.pt").read_bytes() == b"weights"
    result = json.loads((folder_ / "train.json").read_text())
    assert result["updates"] == 10
    assert result["corrupted"]["proportion"] == pytest.approx(0.15)
    assert len((folder_ / "metrics.jsonl").read_text().splitlines()) == 10
    record = json.loads((folder_ / "run.json").read_text())
    assert (record["k"], record["p"], record["seed"]) == (8, 0.622, 1)
    assert record["commands"]["fairseq-train"] == ["fairseq-train", "..."]
    assert record["versions"]["torch"] and record["commit"]
    assert record["attempts"][0]["exit_status"] == 0

    capsys.readouterr()
    again = grid_of(study, "figure4", only={"k": "8"})
    again.execute()
    assert "2 runs, 2 of them finished before" in capsys.readouterr().out
    assert len(json.loads((folder_ / "run.json").read_text())["attempts"]) == 1


def test_a_failing_run_does_not_stop_the_others(study):
    (study.output / "fail-repeated-mlm-k8-p0.622-s1").touch()
    grid = grid_of(study, "figure4", only={"k": "8"})
    grid.execute()
    [(run, step, text)] = grid.failures
    assert (run.key, step.name) == ("repeated-mlm-k8-p0.622-s1", "train")
    assert "the reason why" in text
    assert (study.folder(Run("repeated-mlm", 8, 0.789)) / "train.json").exists()
    (study.output / "fail-repeated-mlm-k8-p0.622-s1").unlink()
    again = grid_of(study, "figure4", only={"k": "8"})
    again.execute()
    assert again.failures == [] and again.missing(run) == []


def test_two_at_a_time_share_the_cores(study, monkeypatch):
    monkeypatch.setattr(runner.os, "cpu_count", lambda: 6)
    (study.output / "meet").touch()
    grid = grid_of(study, "figure4", only={"k": "8"}, jobs=2)
    grid.execute()
    assert grid.failures == [] and not any(grid.missing(run) for run in grid.runs)
    for run in grid.runs:
        assert "threads 3" in (study.folder(run) / "train.log").read_text()


KILLED = """
import os, sys
from pathlib import Path
from recipes.study import runner, steps
from recipes.study.grids import expand
output, script, template, data = map(Path, sys.argv[1:])
runner.command_of = lambda study, run, step, gpu: [
    sys.executable, str(script), str(study.folder(run) / "checkpoints"), step.name, str(template)]
runner.shown = lambda command: []
runner.Grid(steps.Study(output, "smoke", data), expand(["figure4"], only={"k": "8"}), [None]).execute()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a child with its parent")
def test_a_killed_grid_ends_its_training_and_goes_on(study, tmp_path, data):
    (study.output / "slow").touch()
    program = [sys.executable, "-c", KILLED, str(study.output), str(tmp_path / "train.py")]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'scripts'}"}
    process = subprocess.Popen([*program, str(tmp_path / "template.pt"), str(data)], env=environment)
    log = study.folder(Run("repeated-mlm", 8, 0.622)) / "train.log"
    state = log.parent / "checkpoints" / "state"
    deadline = time.monotonic() + 8
    while not (state.exists() and state.read_text() == "5") and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert state.read_text() == "5"
    while still_there(str(log.parent)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not still_there(str(log.parent)), "the training outlived its runner"

    (study.output / "slow").unlink()
    grid = grid_of(study, "figure4", only={"k": "8"})
    grid.execute()
    assert grid.failures == []
    assert "starts at 5" in log.read_text()
    result = json.loads((log.parent / "train.json").read_text())
    assert result["updates"] == 10
    attempts = json.loads((log.parent / "run.json").read_text())["attempts"]
    assert [a.get("exit_status") for a in attempts] == [None, 0]


def still_there(word: str) -> bool:
    """Whether a process has the word in its command."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


# ---- the command line


def refusal(capsys, *arguments) -> str:
    try:
        code = run_experiments.main([str(a) for a in arguments])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    return capsys.readouterr().err


def test_what_the_command_refuses(tmp_path, data, capsys):
    out = tmp_path / "out"
    small = ("--size", "small", "--output", out)
    assert "unknown figure or table 'table99'" in refusal(capsys, "table99", *small)
    assert "give a whole number from 1 to 16" in refusal(capsys, "all", *small, "--only", "k=20")
    assert "needs --data" in refusal(capsys, "all", *small)
    assert "no such folder" in refusal(capsys, "all", *small, "--data", tmp_path / "nowhere")
    for more in (("--jobs", 0), ("--jobs", 2, "--gpus", 0)):
        assert f"--jobs {more[1]}: give 1 or more" in refusal(capsys, "all", *small, "--data", data, *more)
    assert "different whole numbers" in refusal(capsys, "all", *small, "--seeds", "1,1")
    assert "invalid choice: 'huge'" in refusal(capsys, "all", "--size", "huge", "--output", out)
    assert "has no MNLI-bin" in refusal(capsys, "all", *small, "--data", data, "--glue", tmp_path)
    message = refusal(capsys, "all", *small, "--data", data, "--flags", "--lr 1e-3 --max-update=7")
    assert "--max-update would hold for runs that differ in it" in message
    (data / "dict.txt").unlink()
    assert "has no dict.txt" in refusal(capsys, "all", *small, "--data", data)
    assert not out.exists()


def test_an_output_folder_that_cannot_be_written(tmp_path, data, capsys):
    (tmp_path / "file").touch()
    place = ("--size", "small", "--data", data, "--output", tmp_path / "file" / "out")
    assert "cannot be written" in refusal(capsys, "all", *place)


def test_an_output_folder_of_other_settings(tmp_path, data, capsys):
    out = tmp_path / "out"
    folder.prepare(out, {"size": "small", "data": "typo", "glue": None})
    folder.prepare(out, {"size": "small", "data": "here", "glue": None})  # nothing was trained before
    (out / "runs" / "mlm").mkdir()
    (out / "runs" / "mlm" / "checkpoint.pt").touch()
    folder.prepare(out, {"size": "small", "data": "here", "glue": "added"})
    with pytest.raises(folder.FolderError, match="other settings.*\n.*data: there 'here', asked 'there'"):
        folder.prepare(out, {"size": "small", "data": "there", "glue": "added"})
    message = refusal(capsys, "all", "--size", "paper", "--data", data, "--output", out)
    assert "other settings" in message and "size: there 'small', asked 'paper'" in message


def test_two_runners_in_one_folder(tmp_path):
    folder.prepare(tmp_path, {})
    with folder.locked(tmp_path), pytest.raises(folder.FolderError, match="another"), folder.locked(tmp_path):
        pass


def test_a_dry_run_shows_the_commands(tmp_path, data, capsys):
    arguments = ["table12", "--size", "small", "--data", data, "--output", tmp_path / "out", "--dry-run"]
    assert run_experiments.main([str(a) for a in arguments]) == 0
    shown = capsys.readouterr().out
    assert "pretrain_text.sh exlm small" in shown and "--k 4 --p 0.15 --seed 1" in shown
    smoke = ["all", "--size", "smoke", "--output", tmp_path / "out", "--dry-run"]  # needs no data
    assert run_experiments.main([str(a) for a in smoke]) == 0
    assert "--updates 240" in capsys.readouterr().out  # the MLM with twice the updates
    assert run_experiments.main([str(a) for a in (*smoke, "--updates", "30")]) == 0
    shown = capsys.readouterr().out
    assert shown.count("--updates 60") == 1 and "--updates 30" in shown
    assert not (tmp_path / "out").exists()


def test_evaluation_scripts_are_where_the_commands_say(tmp_path, data):
    study = steps.Study(tmp_path, "smoke", data)
    run = Run("repeated-mlm", 1, 0.387)
    for step in steps.steps_of(study, run, {"entropy", "quality"})[1:]:
        words = steps.command_of(study, run, step, None)
        assert Path(words[1]).exists()
    assert words[words.index("--mask-prob") + 1 :][:2] == ["0.15", "0.387"]
