"""Tables 1 and 3 from results, beside the paper's."""

import pandas as pd
import pytest
from lib.command_line import UserError
from lib.glue.tasks import TASKS
from lib.report import finetunings, frame

from tests.lib.report.conftest import (
    POINT,
    blocks_of,
    glue_result,
    molecule_result,
    record,
    row,
    squad_result,
)

GRID = ["table11", {"batch": "16", "epochs": "3", "warmup": "0.06"}, "chosen by seed 1"]
HEAD = ["MNLI-m", "MNLI-mm", "QQP", "QNLI", "SST-2", "CoLA", "RTE", "MRPC", "STS-B", "MEAN", "EM", "F1"]


def read(tmp_path, names="m") -> pd.DataFrame:
    """The results of models, in folders of their names."""
    return pd.concat([frame.finetunings(name, tmp_path / name, []) for name in names], ignore_index=True)


def table3(tmp_path, expected=0, grid=None):
    section = finetunings.table3(read(tmp_path), {"m": expected}, {"m": grid})
    tables = blocks_of(section, pd.DataFrame)
    return record(tables, "m (ours)"), tables[1:], section


def table1(tmp_path, names="m", **expected):
    return finetunings.table1(read(tmp_path, names), expected)


def sweep(folder, scores: dict[str, list[float]]):
    """A sweep of RTE over learning rates: rate -> the score of each seed."""
    for lr, found in scores.items():
        for seed, score in enumerate(found, 1):
            point = {"lr": lr, **GRID[1]}
            glue_result(folder / lr / f"seed-{seed}", "RTE", score, seed, point=point)


def remarks_of(sections) -> list[str]:
    return [line for section in sections for block in blocks_of(section, list) for line in block]


def test_best_point_by_the_first_seed_then_the_median(tmp_path):
    # the third rate is best with the first seed, whatever the others say; of equals the one that was chosen
    sweep(tmp_path / "m", {"2e-5": [0.5, 0.9, 0.9], "3e-5": [0.6], "4e-5": [0.6, 0.61, 0.7], "5e-5": [0.6]})
    ours, details, _ = table3(tmp_path, 3, GRID)
    assert ours["RTE"] == "61.0 (n=3)"
    assert row(details, "RTE")[1:] == [
        *("accuracy", "61.00", "60.00, 61.00, 70.00", "1, 2, 3", "lr4e-5-b16-e3-w0.06"),
        *("4 of 4", "2,490 of 2,490", "277 of 277", "pre-trained"),
    ]


def test_unfinished_grids_and_seeds_are_marked(tmp_path):
    sweep(tmp_path / "m", {"2e-5": [0.5], "3e-5": [0.7, 0.6]})
    ours, _, _ = table3(tmp_path, 3, GRID)
    assert ours["RTE"] == "65.0 (n=2 of 3) (2 of 4 points)" and ours["MEAN"] == "65.0 (1 of 8)"
    assert (ours["MRPC"], ours["EM"]) == ("not run", "not run")


def test_a_whole_table(tmp_path):
    for task in TASKS:
        for seed, score in enumerate((0.5, 0.52, 0.6, 0.51, 0.59), 1):
            more = {"rows": {"train": 100, "valid": 1500}} if task == "STS-B" else {}
            more |= {"inputs": {"init_from": "beef"}} if task in ("RTE", "STS-B") else {}
            more |= {"cut": {"valid": [3, 512], "valid1": [0, 512]}} if task == "MNLI" else {}
            glue_result(tmp_path / f"m/{task}-{seed}", task, score, seed, **more)
    for seed in (1, 2, 3):
        squad_result(tmp_path / f"m/squad/{seed}", seed, exact=70.0 + seed, f1=80.0 + seed, HasAns_f1=60.0)
    ours, details, section = table3(tmp_path)
    assert [ours[column] for column in HEAD] == [
        *["52.0 (n=5)"] * 6,
        *("52.0 (n=5)‡", "52.0 (n=5)", "52.0 (n=5)†‡", "52.0", "72.0 (n=3)", "82.0 (n=3)"),
    ]
    notes = " ".join(blocks_of(section, str))
    assert "started from a model fine-tuned on MNLI" in notes and "not comparable with the paper" in notes
    assert row(blocks_of(section, pd.DataFrame)[:1], "ExLM")[1:] == [
        *("86.9", "86.7", "92.0", "93.1", "93.9", "64.6", "78.8", "89.6", "90.5", "86.2", "82.0", "84.6")
    ]
    assert record(details, "MNLI-m")["development rows"] == "9,815 of 9,815, 3 cut to 512 tokens"
    assert row(details, "STS-B")[-3:] == ["100 of 5,749", "1,500 of 1,500", "MNLI's"]
    assert row(details, "EM")[1:5] == ["exact", "72.00", "71.00, 72.00, 73.00", "1, 2, 3"]
    assert row(details, "EM")[-3:] == ["", "11,873 of 11,873", "pre-trained"]
    assert row(details, "SQuAD, HasAns_f1")[1:4] == ["HasAns_f1", "60.00", "60.00, 60.00, 60.00"]
    assert "SQuAD, best_f1" not in set(details[0]["task"])


def test_a_part_of_squad_is_marked(tmp_path):
    squad_result(tmp_path / "m", 1, exact=50.0, f1=51.0, total=2384)
    ours, details, _ = table3(tmp_path)
    assert (ours["EM"], ours["F1"], ours["RTE"], ours["MEAN"]) == ("50.0†", "51.0†", "not run", "-")
    assert set(details[0]["development rows"]) == {"2,384 of 11,873"}


def test_seeds_are_ordered_as_numbers(tmp_path):
    for seed, score in ((5, 0.5), (10, 0.7)):
        glue_result(tmp_path / f"m/{seed}", "RTE", score, seed)
    ours, details, _ = table3(tmp_path, 3)
    assert ours["RTE"] == "60.0 (n=2 of 3)" and record(details, "RTE")["seeds"] == "5, 10"


def test_one_result_twice_is_an_error(tmp_path):
    for name in ("one", "two"):
        glue_result(tmp_path / "m" / name, "RTE", 0.5)
        molecule_result(tmp_path / "m/bbbp" / name, "bbbp", 1, 0.7)
    every = read(tmp_path)
    with pytest.raises(UserError, match="seed 1 of RTE with lr5e-5.* is in .*one and in .*two"):
        finetunings.table3(every[every["table"] == "table3"], {}, {})
    with pytest.raises(UserError, match="seed 1 of bbbp is in .*one and in .*two"):
        finetunings.table1(every[every["table"] == "table1"], {})
    assert POINT["lr"] == "5e-5"


def test_table_1_and_regressions(tmp_path):
    for dataset, aucs in (("bbbp", (0.70, 0.72, 0.77)), ("bace", (0.8,))):
        for seed, auc in enumerate(aucs, start=1):
            molecule_result(tmp_path / "a" / dataset / f"seed-{seed}", dataset, seed, auc)
    molecule_result(tmp_path / "b/esol/seed-1", "esol", 1, 0.5, "regression")
    classifications, regressions = table1(tmp_path, "ab")
    # the mean of 70, 72 and 77 is 73; their sample deviation is 3.6
    ours = ["80.0 (n=1 of 3)", "73.0 ± 3.6 (n=3)", *["not run"] * 5, "76.5 (2 of 7)"]
    assert row(classifications.blocks, "a (ours)")[1:] == ours
    papers = ["79.6", "72.8", "78.2", "64.5", "78.8", "91.6", "66.9", "76.1"]
    assert row(classifications.blocks, "ExLM")[1:] == papers
    assert row(regressions.blocks, "b (ours)")[1:] == ["0.500"]
    [asked] = finetunings.table1(read(tmp_path, "a"), {"a": 4})
    assert record(asked.blocks, "a (ours)")["BBBP"] == "73.0 ± 3.6 (n=3 of 4)"


def test_the_mean_is_over_the_papers_seven_sets(tmp_path):
    for i, dataset in enumerate(["bace", "bbbp", "tox21", "sider", "muv", "clintox", "toxcast", "own"]):
        molecule_result(tmp_path / "m" / dataset, dataset, 1, 0.5 + i / 10 * (dataset != "own"))
    ours = record(table1(tmp_path)[0].blocks, "m (ours)")
    assert list(ours)[-2:] == ["own", "MEAN"] and list(ours.values())[-2:] == ["50.0", "80.0"]  # of the seven


def test_a_score_that_is_not_defined(tmp_path):
    molecule_result(tmp_path / "m/1", "bbbp", 1, None)
    molecule_result(tmp_path / "m/2", "bbbp", 2, 0.7)
    sections = table1(tmp_path)
    assert record(sections[0].blocks, "m (ours)")["BBBP"] == "70.0 (n=1 of 2)"
    assert remarks_of(sections) == ["m, bbbp, seed 1: no AUC on the test set"]


def test_test_sets_that_differ(tmp_path):
    scaffold, random = {"kind": "scaffold", "seed": None}, {"kind": "random", "seed": 5}
    molecule_result(tmp_path / "a/1", "bbbp", 1, 0.7, split=scaffold, test={"rows_sha256": "x"})
    molecule_result(tmp_path / "b/1", "bbbp", 1, 0.7, split=random, test={"rows_sha256": "y"})
    assert remarks_of(table1(tmp_path, "ab")) == [
        "b, bbbp: a random split; the paper's are by scaffold",
        "bbbp: not all results are of the same test molecules: a (seed 1), but b (seed 1)",
    ]
    # equal rows are equal, however they were split
    molecule_result(tmp_path / "b/1", "bbbp", 1, 0.7, split=scaffold, test={"rows_sha256": "x"})
    assert remarks_of(table1(tmp_path, "ab")) == []


def test_molecules_that_a_model_cannot_read(tmp_path):
    molecule_result(tmp_path / "m/1", "tox21", 1, 0.7, test={"unreadable": 3})
    assert remarks_of(table1(tmp_path)) == [
        "m, tox21: 3 molecules of the test set, which it cannot read, are predicted as the mean of the "
        "training labels"
    ]
