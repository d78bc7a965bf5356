"""Table 11's grids, the sweep over them with a fine-tuning that is over in no time, and table 3."""

import json
import sys
from pathlib import Path

import finetune_glue
import pytest
import run_glue
from recipes.glue.grids import Point, points_of, read_grid
from recipes.glue.predictions import scores_of
from recipes.glue.sweep import Finetuning, Sweep, SweepGrid
from recipes.glue.tasks import TASKS, task_named

LARGE = ("MNLI", "QNLI", "QQP", "SST-2")


@pytest.mark.parametrize("name", TASKS)
def test_table_11(name):
    points = points_of(TASKS[name])
    if name in LARGE:
        rates, batches, epochs, warmups = (1e-5, 2e-5, 3e-5, 4e-5), (32,), (2, 3, 5), (0.06,)
    else:
        rates, batches, epochs, warmups = (2e-5, 3e-5, 4e-5, 5e-5), (16, 32), (2, 3, 5, 10), (0.06, 0.1)
    expected = {(r, b, e, w) for r in rates for b in batches for e in epochs for w in warmups}
    found = [(float(p.lr), int(p.batch), int(p.epochs), float(p.warmup)) for p in points]
    assert len(found) == len(set(found)) and set(found) == expected


def test_table_6_is_one_point():
    assert points_of(TASKS["RTE"], "table6") == [Point("5e-5", "32", "3", "0.06")]


def test_points_by_hand():
    task = TASKS["RTE"]
    assert len(points_of(task, only={"lr": "2e-05"})) == 16
    assert points_of(task, "table6", {"lr": "1e-3", "epochs": "7"}) == [Point("1e-3", "32", "7", "0.06")]
    assert len(points_of(task, only={"batch": "8"})) == 32  # another batch, and the rest of the grid
    with pytest.raises(ValueError, match="rate=1: a fine-tuning has lr, batch, epochs, warmup"):
        points_of(task, only={"rate": "1"})
    with pytest.raises(ValueError, match="lr=fast: give a number"):
        points_of(task, only={"lr": "fast"})
    with pytest.raises(ValueError, match="unknown grid 'table12'"):
        points_of(task, "table12")
    with pytest.raises(ValueError, match="unknown task 'WNLI': there are MNLI"):
        task_named("WNLI")


def test_a_broken_grid_file(tmp_path):
    path = tmp_path / "x.grid"
    path.write_text("--lr 1e-5\n--batch-size\n")
    with pytest.raises(ValueError, match="x.grid, line 2: '--batch-size' is not one of"):
        read_grid(path)
    path.write_text("# a comment\n--lr 1e-5 2e-5  # two\n--batch-size 8\n--max-epoch 1\n")
    with pytest.raises(ValueError, match="has no --warmup-proportion"):
        read_grid(path)


# ---- the sweep

FAKE = """
import json, sys
from pathlib import Path
folder, task, lr, seed = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
folder.mkdir(parents=True, exist_ok=True)
if (folder.parents[1] / f"fail-{folder.name}").exists():
    sys.exit("the reason why")
score = 0.5 + (0.1 if lr == 3e-5 else 0) + seed / 100
metric = {"CoLA": "matthews", "STS-B": "spearman"}.get(task, "accuracy")
splits = {"valid": score, "valid1": score - 0.2} if task == "MNLI" else {"valid": score}
result = {"task": task, "metric": metric, "scores": {s: {metric: v} for s, v in splits.items()},
          "rows": {s: 277 for s in splits}, "init_from": "m.pt" if "from" in sys.argv else None}
(folder / "result.json").write_text(json.dumps(result))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A sweep's folder whose fine-tunings are the script above."""
    script = tmp_path / "finetune.py"
    script.write_text(FAKE)
    data = tmp_path / "glue-bin"
    for name in TASKS:
        folder = data / f"{name}-bin"
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(json.dumps({"train": {"kept": 2490}}))
    (tmp_path / "model.pt").write_bytes(b"weights")

    def command(self, run, step, device):
        start = ["from"] if self.study.starts_from(run.task) else []
        folder = self.study.folder(run)
        return [sys.executable, str(script), str(folder), run.task, run.lr, str(run.seed), *start]

    monkeypatch.setattr(SweepGrid, "command", command)
    monkeypatch.setattr(run_glue, "read_start", lambda checkpoint, init_from: None)
    monkeypatch.setattr(run_glue, "check_data", lambda pretrained, data: None)
    return tmp_path


def sweep_of(place, *arguments) -> int:
    asked = [place / "model.pt", "--data", place / "glue-bin", "--output", place / "out", *arguments]
    return run_glue.main([str(a) for a in asked])


def keys(place) -> set[str]:
    return {path.parent.name for path in (place / "out" / "runs").glob("*/result.json")}


def test_the_grid_once_and_the_best_point_with_all_seeds(place, capsys):
    asked = ("--tasks", "RTE", "--only", "batch=16,epochs=3,warmup=0.06", "--seeds", "1,2,3,4,5")
    assert sweep_of(place, *asked) == 0
    grid = {f"RTE-lr{lr}-b16-e3-w0.06-s1" for lr in ("2e-5", "3e-5", "4e-5", "5e-5")}
    best = {f"RTE-lr3e-5-b16-e3-w0.06-s{seed}" for seed in range(1, 6)}
    assert keys(place) == grid | best
    assert "RTE: best with lr=3e-5,batch=16,epochs=3,warmup=0.06" in capsys.readouterr().out
    assert sweep_of(place, *asked) == 0  # nothing to do
    assert "4 runs, 4 of them finished before" in capsys.readouterr().out
    record = json.loads((place / "out/runs/RTE-lr3e-5-b16-e3-w0.06-s2/run.json").read_text())
    assert (record["task"], record["lr"], record["seed"]) == ("RTE", "3e-5", 2)
    assert len(record["attempts"]) == 1 and record["attempts"][0]["exit_status"] == 0


def test_a_failed_run_is_told_and_its_task_waits(place, capsys):
    asked = ("--tasks", "RTE", "CoLA", "--only", "batch=16,epochs=3,warmup=0.06,lr=2e-5", "--seeds", "1,2")
    (place / "out").mkdir()
    (place / "out" / "fail-RTE-lr2e-5-b16-e3-w0.06-s1").touch()
    assert sweep_of(place, *asked) == 1
    assert "the reason why" in capsys.readouterr().out
    assert keys(place) == {f"CoLA-lr2e-5-b16-e3-w0.06-s{seed}" for seed in (1, 2)}
    (place / "out" / "fail-RTE-lr2e-5-b16-e3-w0.06-s1").unlink()
    assert sweep_of(place, *asked) == 0
    assert len(keys(place)) == 4


def test_what_is_refused(place, capsys):
    def refusal(*arguments) -> str:
        assert sweep_of(place, *arguments) == 2
        return capsys.readouterr().err

    assert "unknown task 'XNLI'" in refusal("--tasks", "XNLI")
    assert "a fine-tuning has lr" in refusal("--only", "rate=3")
    assert "each GPU has one run at a time" in refusal("--gpus", "0,1", "--jobs", "2")
    (place / "glue-bin" / "RTE-bin" / "summary.json").unlink()
    assert "prepare RTE with scripts/prepare_glue.py" in refusal("--tasks", "RTE")
    assert sweep_of(place, "--tasks", "CoLA", "--grid", "table6", "--seeds", "1") == 0
    capsys.readouterr()
    assert "grid: there 'table6', asked 'table11'" in refusal("--tasks", "CoLA")


def test_a_run_knows_its_point():
    run = Finetuning("RTE", "2e-5", "16", "10", "0.06", 3)
    assert run.key == "RTE-lr2e-5-b16-e10-w0.06-s3" and run.point == Point("2e-5", "16", "10", "0.06")


def test_its_command_is_understood():
    study = Sweep(Path("out"), Path("c.pt"), Path("bin"), Path("mnli.pt"), ("--update-freq", "2"))
    for task, start in (("RTE", Path("mnli.pt")), ("CoLA", None)):
        run = Finetuning(task, "2e-5", "16", "10", "0.06", 3)
        for device in (None, "1"):
            grid = SweepGrid(study, {run: set()}, [device])
            bash, script, *words = grid.command(run, grid.steps(run)[0], device)
            assert bash == "bash" and Path(script).is_file()
            args, extra = finetune_glue.parser().parse_known_args(words)
            assert (args.task, args.seed, args.init_from) == (task, 3, start)
            assert (args.checkpoint, args.data, args.cpu) == (Path("c.pt"), Path("bin"), device is None)
            assert args.save == Path("out/runs") / run.key and extra == ["--update-freq", "2"]
            assert finetune_glue.point_of(args, TASKS[task]) == run.point


def test_scores_of_a_saved_file(tmp_path):
    path = tmp_path / "valid.tsv"
    rows = [("0", "1", "1"), ("1", "0", "1"), ("2", "0", "0"), ("3", "1", "0"), ("4", "1", "1")]
    path.write_text("index\tprediction\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows))
    found = scores_of(path, TASKS["MRPC"])
    assert list(found) == ["accuracy", "f1"]
    assert found == {"accuracy": pytest.approx(3 / 5, abs=1e-12), "f1": pytest.approx(2 / 3, abs=1e-12)}
    # by hand: (TP TN - FP FN) / sqrt((TP + FP)(TP + FN)(TN + FP)(TN + FN)) = (2 - 1) / 6
    assert scores_of(path, TASKS["CoLA"])["matthews"] == pytest.approx(1 / 6, abs=1e-12)
