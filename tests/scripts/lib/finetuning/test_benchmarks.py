"""A benchmark of one's own: from its entry to the workflow's commands and the report."""

import pytest
from lib.command_line import Flags
from lib.files import ROOT
from lib.finetuning.benchmark import Benchmark
from lib.finetuning.benchmarks import BENCHMARKS, TABLES
from lib.report.finetunings import add_table, finetunings
from lib.report.page import Page
from lib.workflow import plan, runs, settings
from lib.workflow.price import price

from tests.support.builders import write_file


class Mine(Benchmark):
    name, title, table, needs = "mine", "words of mine", "mine", "mine=FOLDER"

    def recipe(self, task):
        return Flags.of("--lr 1e-4 --max-epoch 7")

    def tokens(self, task):
        return 10**15


@pytest.fixture
def mine(monkeypatch):
    monkeypatch.setitem(BENCHMARKS, "mine", Mine())
    monkeypatch.setitem(TABLES, "mine", None)
    runs.targets.cache_clear()
    yield
    runs.targets.cache_clear()


def test_every_benchmark_has_its_scripts():
    assert {*BENCHMARKS} == {"glue", "moleculenet", "squad"}
    for name in BENCHMARKS:
        assert all(
            (ROOT / "scripts" / file).is_file() for file in (f"prepare_{name}.py", f"finetune_{name}.sh")
        )


def test_its_results_commands_price_and_table(mine, tmp_path):
    data, model = tmp_path / "data", write_file(tmp_path / "model.pt", b"weights")
    asked = {"output": str(tmp_path / "out"), "gpus": 2, "models": f"a={model}", "finetune_seeds": "1,5"}
    with pytest.raises(ValueError, match="mine needs mine=FOLDER"):
        plan.Jobs(settings.read(asked), "mine")
    found = settings.read({**asked, "mine": str(data)})
    jobs = plan.Jobs(found, "mine")
    files = [tmp_path / "out" / path for path in jobs.files]
    assert files == [tmp_path / f"out/mine/a/mine/recipe/seed-{n}/result.json" for n in (1, 5)]
    command = plan.finetune_command(found, "s", [*jobs.tunings.values()][1])
    assert command[:5] == ["bash", "s/finetune_mine.sh", str(model), str(data), str(files[1].parent)]
    assert command[5:] == ["--seed", "5", "--gpus", "1"]
    line = price(found, "mine")
    assert "2 fine-tunings, " in line and line.endswith(f"not there yet: {data}")
    for seed, score in ((1, 0.5), (5, 0.7)):
        content = {"benchmark": "mine", "task": "mine", "metric": "f1", "metrics": {"valid": {"f1": score}}}
        write_file(files[seed > 1], {**content, "seed": seed})
    page, problems = Page("Report"), []
    results = finetunings("a", tmp_path / "out/mine/a", problems).assign(expected=2)
    add_table(page, "mine", results, ["table6", {}])
    assert not problems and "| a | ours | 0.6 ± 0.1 (n=2) |" in page.markdown()
    assert "words of mine" in page.markdown()


def test_a_result_may_have_several_remarks():
    content = {"task": "bace", "kind": "regression", "metric": "rmse", "split": {"kind": "random"}}
    content["metrics"] = {"test": {"rmse": 2.5, "r2": -0.25}}
    row = BENCHMARKS["moleculenet"].columns(content)
    assert "a random split" in row["remark"] and "R^2 -0.25" in row["remark"] and row["BACE"] == 2.5
