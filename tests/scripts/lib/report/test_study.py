"""The figures and tables of the study: numbers where they belong, over seeds; a mark where there is none."""

import pytest
from lib.glue import TASKS
from lib.report import study
from lib.report.page import Page
from lib.report.results import frame
from lib.report.study import PAPER
from lib.workflow.runs import targets

from tests.scripts.lib.report.conftest import glue_result, measured, record, records, trained


def probed(accuracy, bits=9.0):
    return measured({"accuracy": accuracy, "bits": bits})


def entropy(bits, posterior=None):
    return measured({"entropy": {"mean": bits}, "entropy_posterior": posterior and {"mean": posterior}})


@pytest.fixture
def page(tmp_path):
    """A figure or table as a page."""

    def built(name, **settings):
        made = Page(name, tmp_path)
        study.add_target(made, targets()[name], frame(tmp_path, []), settings)
        return made

    return built


@pytest.mark.parametrize("name", [name for name, one in targets().items() if one.of_study])
def test_without_results_there_are_the_papers_numbers_and_marks(page, name):
    """Every number that a target shows is known, and its table has a row for each run."""
    made, target = page(name), targets()[name]
    assert not target.numbers or len(records(made)) == len(target.runs)
    for row in records(made):
        assert {cell for head, cell in row.items() if head[-1] == "ours"} == {"-"}
    shown = [head for row in records(made) for head in row if head[-1] == "paper"]
    assert bool(shown) == bool({*target.numbers} & {*PAPER})


TWO = {"seeds": [1, 2]}
EXLM, COPIES = "ExLM, k = 4", ("Repeated MLM, k = 2", "2", "38.7%", "14.98%")
# table, settings, the first cells of a row, and its last: the paper's number, and ours, of each quantity
ROWS = [
    ("figure5", TWO, COPIES, ["2.30", "3.25 ± 0.35 (n=2)"]),
    ("figure4", TWO, COPIES, ["15.00", "15.20 ± 0.00 (n=2)"]),
    ("figure3", TWO, COPIES, ["83.1", "26.5 ± 0.7 (n=2)", "9.000 ± 0.000 (n=2)"]),
    ("figure5", TWO, ("MLM", "1", "15%"), ["2.00 (n=1 of 2)"]),
    ("figure5", TWO, ("Repeated MLM, k = 4", "4", "62.2%"), ["-"]),
    ("table2", {}, (EXLM,), ["85.1", "91.4", "91.3", "57.6", "81.4", "31.0", "7.000"]),
    ("table2", {}, ("MLM",), ["20.0", "8.000"]),
    ("table4", {}, (EXLM, "4", "38.7%"), ["31.0", "7.000", "10.0", "9.000"]),
    ("table12", {}, (EXLM,), ["104.20", "0.95", "0.95"]),
    ("figure12", {}, (EXLM, "4", "15%"), ["4.50", "3.25"]),
    ("figure9", {}, ("MLM", "1", "15%"), ["7.00", "20.0", "480.0"]),
]


def test_numbers_appear_where_they_should(add, page, tmp_path):
    """Of pre-trainings of two seeds, and without some of the measures."""
    for seed, bits in ((1, 3.0), (2, 3.5)):
        measures = {"entropy": entropy(bits), "probe": probed(0.25 + 0.01 * seed)}
        add("repeated-mlm-k2-p0.387", seed, train=trained(corrupted=0.152), **measures)
    curve = [{"update": u, "loss": 9 - u / 10, "accuracy": u, "ppl": 500 - u} for u in (10, 20)]
    measures = {"entropy": entropy(2.0), "probe": probed(0.2, 8.0)}
    add("repeated-mlm-k1-p0.15", train=trained(1800, curve=curve), **measures)
    add("repeated-mlm-k1-p0.15", 2)  # unfinished
    add("exlm-k4-p0.15", train=trained(3420), probe=probed(0.31, 7.0), entropy=entropy(4.5, 3.25))
    own = {"mask_prob": 0.387, "accuracy": 0.1, "bits": 9.0}
    add("exlm-k4-p0.387", train=trained(3420), probe=measured({"accuracy": 0.31, "bits": 7.0}, own))
    for name, settings, first, last in ROWS:
        assert [*record(page(name, **settings), *first).values()][-len(last) :] == last, (name, first)
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert {"figure5-entropy-paper.png", "figure5-entropy-ours.png"} <= pictures
    assert sum(picture.startswith("figure9") for picture in pictures) == 3 * 5  # of each quantity and p


def test_fine_tuning_takes_the_place_of_the_probe(add, page):
    settings = {"seeds": [1, 2], "finetune_seeds": [1, 2]}
    folder = add("repeated-mlm-k1-p0.15", train=trained())

    def tune(task, seed, *scores):
        splits = zip(TASKS[task].valid_splits, scores, strict=True)
        metrics = {split: {"accuracy": score} for split, score in splits}
        glue_result(folder / f"glue/{task}/table6/seed-{seed}", task, 0, seed, metrics=metrics)

    tune("MNLI", 1, 0.80, 0.82)
    tune("MNLI", 2, 0.82, 0.84)
    tune("QNLI", 1, 0.9)
    tune("QQP", 1, 0.88)
    shown = record(page("figure8", **settings), "MLM", "1", "15%")
    assert shown["MNLI-m, %", "ours"] == "81.0 ± 1.4 (n=2 of 4)"
    found, average = record(page("table2", **settings), "MLM"), ("average of four tasks, %", "ours")
    assert found["MNLI, %", "ours"] == "82.0 ± 1.4 (n=2 of 4)"
    assert found["QNLI, %", "ours"] == "90.0 (n=1 of 4)"
    assert found[average] == "-"  # no seed has all four tasks
    tune("RTE", 1, 0.6)
    assert record(page("table2", **settings), "MLM")[average] == "79.8 (n=1 of 4)"  # 81, 90, 88, 60
