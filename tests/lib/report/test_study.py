"""The study's sections: numbers where they belong, means over seeds, and a mark where there is none."""

import json
import math
from itertools import combinations

import pytest
from lib.glue.tasks import TASKS
from lib.report import study_tables
from lib.report.page import Pictures
from lib.report.study import Study
from lib.report.study_figures import corrupted_share
from lib.study.runs import experiments
from lib.tables import Table

from tests.lib.report.conftest import blocks_of, trained, write


def probed(accuracy, bits=9.0, ratio=0.15):
    return {"results": [{"mask_prob": ratio, "accuracy": accuracy, "bits": bits}]}


def tune(folder, task, seed, *scores):
    splits = dict(zip(TASKS[task].valid_splits, scores, strict=True))
    content = {"scores": {split: {"accuracy": score} for split, score in splits.items()}}
    write(folder / "glue" / task / f"seed-{seed}" / "result.json", content)


@pytest.fixture
def section(tmp_path, reader):
    """A figure's or table's blocks."""

    def built(name):
        return study_tables.BUILDERS[name](Study(tmp_path, reader), "")

    return built


def row(blocks, *cells) -> list[str]:
    """The one row of the tables that begins with these cells."""
    rows = [list(row) for block in blocks if isinstance(block, Table) for row in block.rows]
    [found] = [row for row in rows if row[: len(cells)] == list(cells)]
    return found


def test_without_results_there_are_the_papers_numbers_and_marks(tmp_path, reader):
    papers = [name for name, one in experiments().items() if one.of_the_paper]
    write(tmp_path / "study.json", {"size": "smoke", "targets": papers})
    (tmp_path / "study").mkdir()
    whole = study_tables.section(Study(tmp_path, reader), "The study")
    assert [section.title.split(":")[0].replace(" ", "").lower() for section in whole.sections] == papers
    figure5, table13 = (
        next(s for s in whole.sections if s.title.startswith(label)) for label in ("Figure 5", "Table 13")
    )
    assert row(figure5.blocks, "8", "78.9%") == ["8", "78.9%", "15.02%", "1.76", "not run"]
    assert row(table13.blocks, "ExLM w/ Sparse DAG")[-3:] == ["81.0", "not run", "not run"]
    assert figure5.blocks[0].endswith("There are results of 0 of 14 pre-trainings.")
    assert table13.blocks[0].endswith("exlm-no-transitions-k4-p0.15, exlm-sparse-k4-p0.15.")
    names = [picture.name for block in blocks_of(whole, Pictures) for picture in block.pictures]
    assert len(names) == len(set(names)) == 23


def test_numbers_appear_where_they_should(add, section):
    for seed, bits in ((1, 3.0), (2, 3.5)):
        entropy = {"entropy": {"mean": bits}, "entropy_posterior": None}
        results = {"entropy": entropy, "probe": probed(0.25 + 0.01 * seed)}
        add(f"repeated-mlm-k2-p0.387/lr-default/seed-{seed}", train=trained(corrupted=0.152), **results)
    cell = ["2", "38.7%", "14.98%"]
    assert row(section("figure5"), "2", "38.7%") == [*cell, "2.30", "3.25 ± 0.35 (n=2)"]
    assert row(section("figure3"), "2", "38.7%") == [*cell, "83.1", "26.5 ± 0.7 (n=2)"]
    apart = (0.152 - 0.387**2) / math.sqrt(0.387**2 * (1 - 0.387**2) / 20_000)
    measured = row(section("figure4"), "2", "38.7%")
    assert measured[3:] == ["15.00", "15.200 ± 0.000 (n=2)", "", "20,000", f"{apart:+.1f}", ""]


def test_what_is_not_there_is_marked(add, section, reader):
    add("repeated-mlm-k1-p0.15/lr-default/seed-1", train=trained(), entropy={"entropy": {"mean": 2.0}})
    add("repeated-mlm-k1-p0.15/lr-default/seed-2")
    add("repeated-mlm-k2-p0.15/lr-default/seed-1")
    add("repeated-mlm-k4-p0.387/lr-default/seed-1", train=trained())
    add("repeated-mlm-k8-p0.622/lr-default/seed-1", train=trained(), entropy={"entropy_posterior": None})
    figure = section("figure5")
    assert row(figure, "1", "15%")[-1] == "2.00 (n=1 of 2)"
    assert row(figure, "2", "15%")[-1] == "unfinished"
    assert row(figure, "4", "38.7%")[-1] == "not measured"
    assert row(figure, "8", "62.2%")[-1] == "damaged"
    assert row(figure, "8", "78.9%")[-1] == "not run"
    [problem] = reader.problems
    assert "repeated-mlm-k8-p0.622/lr-default/seed-1/entropy.json is damaged: it has no 'entropy'" in problem


def test_a_damaged_training_and_a_folder_of_something_else(tmp_path, add, section, reader):
    folder = add("repeated-mlm-k1-p0.15/lr-default/seed-1", train=trained())
    (folder / "train.json").write_text("{")
    (folder / "metrics.jsonl").write_text('{"kind": "train", "up')
    add("notes/lr-default/seed-1")
    assert row(section("figure4"), "1", "15%")[4] == "damaged"
    assert row(section("figure9"), "1", "15%")[2] == "damaged"
    assert [problem.split(":")[0].split(" is ")[0] for problem in reader.problems] == [
        str(tmp_path / "study" / "notes/lr-default/seed-1"),
        str(folder / "train.json"),
        str(folder / "metrics.jsonl"),
    ]


def test_the_share_expected_from_masking_without_replacement(add, section):
    # 3 tokens twice, 2.4 of 6 positions masked: 2 or 3 of them, all equally likely
    both = [
        sum({0, 1} <= set(masks) for masks in combinations(range(6), m)) / math.comb(6, m) for m in (2, 3)
    ]
    assert corrupted_share(2, 0.4, 3) == pytest.approx(0.6 * both[0] + 0.4 * both[1], rel=1e-12)
    assert corrupted_share(1, 0.15, 512) == pytest.approx(0.15, rel=1e-12)
    assert corrupted_share(4, 0.387, 10**7) == pytest.approx(0.387**4, rel=1e-6)
    assert corrupted_share(8, 0.02, 4) == 0.0  # never 8 masks
    command = ["fairseq-train", "--tokens-per-sample", "512", "--tokens-per-sample", "32"]
    share = corrupted_share(2, 0.15, 32)
    add("repeated-mlm-k2-p0.15/lr-default/seed-1", train=trained(corrupted=share, fairseq_train=command))
    cells = row(section("figure4"), "2", "15%")
    assert cells[4] == cells[5] == f"{100 * share:.3f}"
    assert cells[8] in ("+0.0", "-0.0") and float(cells[7]) < 0


def test_tables_of_methods_and_time(add, section):
    add("repeated-mlm-k1-p0.15/lr-default/seed-1", train=trained(1800), probe=probed(0.2, 8.0))
    add("repeated-mlm-k1-p0.15-x2/lr-default/seed-1", train=trained(3600), probe=probed(0.23, 7.5))
    entropy = {"entropy": {"mean": 4.5}, "entropy_posterior": {"mean": 3.25}}
    add("exlm-k4-p0.15/lr-default/seed-1", train=trained(3420), probe=probed(0.31, 7.0), entropy=entropy)
    table = section("table2")
    assert row(table, "ExLM") == ["ExLM", "85.1", "91.4", "91.3", "57.6", "81.4", "31.0", "7.000"]
    assert row(table, "Vanilla MLM")[-2:] == ["20.0", "8.000"]
    assert row(table, "Vanilla MLM++")[-2:] == ["23.0", "7.500"]
    assert row(table, "ExLM w/o 2D RoPE")[-2:] == ["not run", "not run"]
    assert "different quantity from the paper's" in table[0]
    assert row(section("table4"), "15%: ExLM, k = 4")[6:] == ["31.0", "7.000", "31.0", "7.000"]
    time = section("table12")
    assert row(time, "MLM") == ["MLM", "54.7", "0.500", "1.00", "1.00", "a laptop"]
    assert row(time, "ExLM, k = 4") == ["ExLM, k = 4", "104.2", "0.950", "1.90", "1.90", "a laptop"]
    assert row(section("figure12"), "15%", "ExLM, k = 4")[2:] == ["4.50", "3.25"]


def test_the_probe_at_a_models_own_share(add, section):
    results = {"results": [*probed(0.2, 8.0)["results"], *probed(0.1, 9.0, 0.387)["results"]]}
    add("exlm-k4-p0.387/lr-default/seed-1", train=trained(), probe=results)
    assert row(section("table4"), "38.7%: ExLM, k = 4")[6:] == ["20.0", "8.000", "10.0", "9.000"]


def test_fine_tuning_takes_the_place_of_the_probe(add, section):
    folder = add("repeated-mlm-k1-p0.15/lr-default/seed-1", train=trained())
    tune(folder, "MNLI", 1, 0.80, 0.82)
    tune(folder, "MNLI", 2, 0.82, 0.84)
    for task, score in (("QNLI", 0.9), ("QQP", 0.88), ("RTE", 0.6)):
        tune(folder, task, 1, score)
    assert row(section("figure3"), "1", "15%")[-2:] == ["83.6", "82.0 ± 1.4 (n=2)"]
    assert row(section("figure8")[:3], "1", "15%")[-2:] == ["84.1", "81.0 ± 1.4 (n=2)"]
    expected = ["83.6", "82.0 ± 1.4 (n=2)", "90.0", "90.0", "90.3", "88.0", "54.7", "60.0", "79.6", "80.0"]
    assert row(section("table2"), "Vanilla MLM") == ["Vanilla MLM", *expected]


def test_unfinished_fine_tunings_are_counted(tmp_path, add, section):
    for seed in (1, 2):
        folder = add(f"repeated-mlm-k1-p0.15/lr-default/seed-{seed}", train=trained())
        for task in ("MNLI", "QNLI", "QQP", "RTE"):
            for again in (1, 2):
                tune(folder, task, again, *[0.5 + 0.1 * again] * len(TASKS[task].valid_splits))
    cells = row(section("table2"), "Vanilla MLM")
    assert cells[2] == cells[-1] == "65.0 ± 5.8 (n=4)"  # four averages over the tasks too
    (folder / "glue/RTE/seed-2/result.json").unlink()
    add("repeated-mlm-k1-p0.15/lr-default/seed-3")
    cells = row(section("table2"), "Vanilla MLM")
    assert cells[2] == "65.0 ± 5.8 (n=4 of 6)" and cells[8] == "63.3 ± 5.8 (n=3 of 6)"
    assert cells[-1] == "64.6"  # the mean of the tasks' means
    (folder / "glue/QNLI/seed-1/result.json").write_text("[]")
    assert row(section("table2"), "Vanilla MLM")[4] == "66.7 ± 5.8 (n=3 of 6)"


def test_curves_are_drawn_from_the_metrics(add, section):
    folder = add("repeated-mlm-k1-p0.15/lr-default/seed-1", train=trained())
    records = [
        {"kind": "train", "update": u, "loss": 9 - u / 10, "ppl": 500 - u, "accuracy": u} for u in (10, 20)
    ]
    lines = [*records, {"kind": "valid", "update": 20, "loss": 7.5}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert row(section("figure9"), "1", "15%") == ["1", "15%", "20", "7.00", "20.0", "480.0"]


def test_what_the_study_is_made_of(tmp_path, add, reader):
    write(tmp_path / "study.json", {"size": "smoke", "data": "the-data", "glue": None, "targets": []})
    add("exlm-k4-p0.15/lr-default/seed-7", train=trained())
    add("exlm-k4-p0.15/lr-default/seed-8")
    section = study_tables.section(Study(tmp_path, reader), "The study")
    assert row(section.blocks, "size") == ["size", "smoke"]
    assert row(section.blocks, "pre-training seeds") == ["pre-training seeds", "7, 8"]
    assert row(section.blocks, "pre-trainings finished")[1] == "1 of 2 begun"
    assert row(section.blocks, "time of the pre-trainings")[1] == "0.50 h, CPU time 1.00 h"
    assert row(section.blocks, "machine")[1] == "a laptop"
    key = "exlm-k4-p0.15/lr-default/seed-7"
    assert reader.commands[str(tmp_path / "study" / key)].endswith(key)
    # nobody asked for anything: there is the training's time, and nothing else
    assert [one.title for one in section.sections] == ["Table 12: Training time"]


def test_what_was_asked_for_and_what_is_complete(tmp_path, add, reader):
    write(tmp_path / "study.json", {"targets": ["table2"]})
    for key in ("exlm-k4-p0.15", "repeated-mlm-k1-p0.15"):
        add(f"{key}/lr-default/seed-1", train=trained(), entropy={"entropy": {"mean": 1.0}})
    section = study_tables.section(Study(tmp_path, reader), "The study")
    assert [one.title.split(":")[0] for one in section.sections] == ["Table 2", "Table 12"]
    [left] = [block for block in section.blocks if isinstance(block, str) and "Not asked" in block]
    assert "figure3 (0 of 14 pre-trainings), figure4 (1 of 14 pre-trainings), figure5 (1 of 14" in left
    assert "figure12 (2 of 16 pre-trainings)" in left and "table2" not in left and "table12" not in left


def test_runs_that_were_asked_for_by_their_files_are_shown_once(tmp_path, add, reader):
    for key in ("exlm-local-p15", "exlm-lattice-p15", "mlm-p15-x2"):
        add(f"{key}/lr-default/seed-1", train=trained(), probe=probed(0.5), curve={"rows": []})
    section = study_tables.section(Study(tmp_path, reader), "The study")
    assert [one.title for one in section.sections] == ["Comparison: Graphs of states at p = 15%"]
    add("exlm-1d-rope-k4-p0.15/lr-default/seed-1", train=trained())
    section = study_tables.section(Study(tmp_path, reader), "The study")
    assert section.blocks[-1] == "Pre-trainings that none of the sections has: exlm-1d-rope-k4-p0.15."
