"""Table 3 from results, beside the paper's; validation and test of molecules."""

from lib.glue import TASKS
from lib.report.finetunings import add_molecules, add_table
from lib.report.page import Page
from lib.report.results import frame

from tests.scripts.lib.report.conftest import glue_result, molecule_result, record, records, squad_result

HEAD = ["MNLI-m", "MNLI-mm", "QQP", "QNLI", "SST-2", "CoLA", "RTE", "MRPC", "STS-B", "MEAN", "EM", "F1"]


def shown(tmp_path, name, **settings) -> Page:
    """A table of the results in a folder of its name."""
    page, problems = Page("Report", tmp_path), []
    results = frame(tmp_path, problems)
    assert not problems
    results = results[results["table"] == (name or "table1")]
    (add_table(page, name, results, settings) if name else add_molecules(page, results, settings))
    return page


def sweep(folder, task, scores: dict[str, list[float]]):
    """A sweep of a task over learning rates: rate -> the score of each seed."""
    for lr, found in scores.items():
        for seed, score in enumerate(found, 1):
            point = {"lr": lr, "batch": "16", "epochs": "3", "warmup": "0.06"}
            glue_result(folder / lr / f"seed-{seed}", task, score, seed, point=point)


def test_best_point_by_the_first_seed_then_the_median(tmp_path):
    # the third rate is best with the first seed, whatever the others say; of equals the one that was chosen
    scores = {"2e-5": [0.5, 0.9, 0.9], "3e-5": [0.6], "4e-5": [0.6, 0.61, 0.7], "5e-5": [0.6]}
    sweep(tmp_path / "table3/m/QNLI", "QNLI", scores)
    sweep(tmp_path / "table3/n/QNLI", "QNLI", {"2e-5": [0.5], "3e-5": [0.7, 0.6]})  # unfinished
    page = shown(tmp_path, "table3", finetune_seeds=[1, 2, 3], grid="table11", max_epoch=3)  # four points
    assert record(page, "m", "ours")["QNLI"] == "61.0 (n=3)"
    ours = record(page, "n", "ours")
    assert ours["QNLI"] == "65.0 (n=2 of 3) (2 of 4 points)" and ours["MEAN"] == "65.0 (1 of 8)"
    assert (ours["MRPC"], ours["EM"]) == ("-", "-")


def test_a_whole_table(tmp_path):
    for task in TASKS:
        for seed, score in enumerate((0.5, 0.52, 0.6, 0.51, 0.59), 1):
            rows = {**TASKS[task].official, "train": 100}
            more = {"rows": rows} if task == "STS-B" else {}
            glue_result(tmp_path / f"table3/m/{task}/{seed}", task, score, seed, **more)
    for seed in (1, 2, 10):
        squad_result(tmp_path / f"table3/m/squad/{seed}", seed, exact=70.0 + seed, f1=80.0 + seed)
    squad_result(tmp_path / "table3/n/squad", 1, exact=50.0, f1=51.0, total=2384)  # a part of it
    page = shown(tmp_path, "table3", finetune_seeds=[1], grid="table6")
    ours, others = record(page, "m", "ours"), record(page, "n", "ours")
    rest = ("52.0 (n=5)", "52.0 (n=5)", "52.0 (n=5)†", "52.0", "72.0 (n=3)", "82.0 (n=3)")
    assert [ours[column] for column in HEAD] == [*["52.0 (n=5)"] * 6, *rest]
    assert [others[column] for column in ("EM", "F1", "RTE", "MEAN")] == ["50.0†", "51.0†", "-", "-"]
    assert record(page, "ExLM")["F1"] == "84.6" and record(page, "ALBERT")["QQP"] == "-"


def test_validation_beside_test_and_what_keeps_numbers_from_being_compared(tmp_path):
    scaffold, random = {"kind": "scaffold", "seed": None}, {"kind": "random", "seed": 5}
    more = {"split": scaffold, "rows_sha256": "x"}
    glue_result(tmp_path / "study/exlm/seed-1/glue/RTE/table6/seed-1", "RTE", 0.5)
    molecule_result(tmp_path / "table1/a/bbbp/1", "bbbp", 1, 0.9, None, **more)
    molecule_result(tmp_path / "table1/a/bbbp/2", "bbbp", 2, 0.8, 0.7, **more)
    molecule_result(tmp_path / "table1/b/bbbp/1", "bbbp", 1, 0.7, 0.6, split=random, rows_sha256="y")
    molecule_result(tmp_path / "table1/b/mine/1", "mine", 1, 0.5, 4.21e-5, "regression", r2=-0.03)
    page = shown(tmp_path, "", finetune_seeds=[1, 2])
    a, b, mine = records(page)
    scores = ("85.0 ± 7.1 (n=2)", "70.0 (n=1 of 2)", "60.0 (n=1 of 2)")
    assert (a["validation"], a["test"], b["test"]) == scores
    about, scores = [*mine.values()], ["0.500 (n=1 of 2)", "0.0000421 (n=1 of 2)"]
    assert about[:3] == ["mine", "logS", "RMSE in the unit of logS (lower is better)"]
    assert about[3:] == ["b", *scores, "30", "-0.03 (n=1 of 2)"]
    split, rows = page.parts[-1].splitlines()
    assert split == "- b, bbbp, seed 1: a random split; the paper's are by scaffold"
    assert rows == "- bbbp: not all results are of the same test molecules: a, b differ"
    # equal rows are equal, however they were split
    molecule_result(tmp_path / "table1/b/bbbp/1", "bbbp", 1, 0.7, 0.7, **more)
    assert "same test molecules" not in shown(tmp_path, "").markdown()
