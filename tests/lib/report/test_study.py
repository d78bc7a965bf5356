"""The study's sections: numbers where they belong, means over seeds, and a mark where there is none."""

import json
import math
from itertools import combinations

import pytest
from lib.glue.tasks import TASKS
from lib.report import study_tables
from lib.report.study import Study
from lib.report.study_figures import corrupted_share
from lib.study.runs import targets

from tests.lib.report.conftest import blocks_of, row, trained, write


def probed(accuracy, bits=9.0, ratio=0.15):
    return {"results": [{"mask_prob": ratio, "accuracy": accuracy, "bits": bits}]}


def tune(folder, task, seed, *scores):
    splits = dict(zip(TASKS[task].valid_splits, scores, strict=True))
    scores = {split: {"accuracy": score} for split, score in splits.items()}
    content = {"task": task, "seed": seed, "metrics": scores, "rows": {"valid": 5}}
    write(folder / "glue" / task / "table6" / f"seed-{seed}" / "result.json", content)


@pytest.fixture
def section(tmp_path, problems):
    """A figure's or table's blocks."""

    def built(name):
        return study_tables.BUILDERS[name](Study(tmp_path, problems), "")

    return built


def test_without_results_there_are_the_papers_numbers_and_marks(tmp_path, problems):
    papers = [name for name, one in targets().items() if one.of_the_study]
    write(tmp_path / "settings.json", {"size": "smoke", "targets": papers})
    (tmp_path / "study").mkdir()
    whole = study_tables.section(Study(tmp_path, problems), "The study")
    assert [section.title.split(":")[0].replace(" ", "").lower() for section in whole.sections] == papers
    figure5, table13 = (
        next(s for s in whole.sections if s.title.startswith(label)) for label in ("Figure 5", "Table 13")
    )
    assert row(figure5.blocks, "8", "78.9%") == ["8", "78.9%", "15.02%", "1.76", "not run"]
    assert row(table13.blocks, "ExLM w/ Sparse DAG")[-3:] == ["81.0", "not run", "not run"]
    assert figure5.blocks[0].endswith("There are results of 0 of 14 pre-trainings.")
    assert table13.blocks[0].endswith("exlm-no-transitions-k4-p0.15, exlm-sparse-k4-p0.15.")
    names = [name for block in blocks_of(whole, dict) for name in block]
    assert len(names) == len(set(names)) == 25


def test_numbers_appear_where_they_should(add, section):
    for seed, bits in ((1, 3.0), (2, 3.5)):
        entropy = {"entropy": {"mean": bits}, "entropy_posterior": None}
        results = {"entropy": entropy, "probe": probed(0.25 + 0.01 * seed)}
        add("repeated-mlm-k2-p0.387", seed, train=trained(corrupted=0.152), **results)
    cell = ["2", "38.7%", "14.98%"]
    assert row(section("figure5"), "2", "38.7%") == [*cell, "2.30", "3.25 ± 0.35 (n=2)"]
    assert row(section("figure3"), "2", "38.7%") == [*cell, "83.1", "26.5 ± 0.7 (n=2)"]
    measured = row(section("figure4"), "2", "38.7%")
    assert measured[3:] == ["15.00", "15.200 ± 0.000 (n=2)", ""]


def test_what_is_not_there_is_marked(tmp_path, add, section, problems):
    write(tmp_path / "settings.json", {"seeds": [1, 2]})
    add("repeated-mlm-k1-p0.15", train=trained(), entropy={"entropy": {"mean": 2.0}})
    add("repeated-mlm-k1-p0.15", 2)
    add("repeated-mlm-k2-p0.15")
    add("repeated-mlm-k4-p0.387", train=trained())
    add("repeated-mlm-k4-p0.622", rate="0.001", train=trained(), entropy={"entropy": {"mean": 2.0}})
    folder = add("repeated-mlm-k8-p0.622", train=trained())
    (folder / "train.json").write_text("{")
    add("notes", train=trained())
    figure = section("figure5")
    assert row(figure, "1", "15%")[-1] == "2.00 (n=1 of 2)"
    assert row(figure, "2", "15%")[-1] == "unfinished"
    assert row(figure, "4", "38.7%")[-1] == "not measured"
    assert row(figure, "4", "62.2%")[-1] == "rate not chosen"
    assert row(figure, "8", "62.2%")[-1] == "unfinished"
    assert row(figure, "8", "78.9%")[-1] == "not run"
    damaged, unknown = problems
    assert f"{folder / 'train.json'} is damaged" in damaged and "notes is in no table of runs" in unknown


def test_the_share_expected_from_masking_without_replacement(add, section):
    # 3 tokens twice, 2.4 of 6 positions masked: 2 or 3 of them, all equally likely
    both = [
        sum({0, 1} <= set(masks) for masks in combinations(range(6), m)) / math.comb(6, m) for m in (2, 3)
    ]
    assert corrupted_share(2, 0.4, 3) == pytest.approx(0.6 * both[0] + 0.4 * both[1], rel=1e-12)
    assert corrupted_share(1, 0.15, 512) == pytest.approx(0.15, rel=1e-12)
    assert corrupted_share(4, 0.387, 10**7) == pytest.approx(0.387**4, rel=1e-6)
    assert corrupted_share(8, 0.02, 4) == 0.0  # never 8 masks
    share = corrupted_share(2, 0.15, 32)
    add("repeated-mlm-k2-p0.15", 1, train=trained(corrupted=share), flags={"--tokens-per-sample": "32"})
    assert row(section("figure4"), "2", "15%")[4:] == [f"{100 * share:.3f}"] * 2


def test_tables_of_methods_and_time(add, section):
    add("repeated-mlm-k1-p0.15", 1, train=trained(1800), probe=probed(0.2, 8.0))
    add("repeated-mlm-k1-p0.15-x2", 1, train=trained(3600), probe=probed(0.23, 7.5))
    entropy = {"entropy": {"mean": 4.5}, "entropy_posterior": {"mean": 3.25}}
    add("exlm-k4-p0.15", 1, train=trained(3420), probe=probed(0.31, 7.0), entropy=entropy)
    table = section("table2")
    assert row(table, "ExLM") == ["ExLM", "85.1", "91.4", "91.3", "57.6", "81.4", "31.0", "7.000"]
    assert row(table, "Vanilla MLM")[-2:] == ["20.0", "8.000"]
    assert row(table, "Vanilla MLM++")[-2:] == ["23.0", "7.500"]
    assert row(table, "ExLM w/o 2D RoPE")[-2:] == ["not run", "not run"]
    assert "different quantity from the paper's" in table[0]
    assert row(section("table4"), "15%: ExLM, k = 4")[6:] == ["31.0", "7.000", "31.0", "7.000"]
    time = section("table12")
    assert row(time, "MLM") == ["MLM", "54.7", "0.500", "1.00", "1.00"]
    assert row(time, "ExLM, k = 4") == ["ExLM, k = 4", "104.2", "0.950", "1.90", "1.90"]
    assert row(section("figure12"), "15%", "ExLM, k = 4")[2:] == ["4.50", "3.25"]


def test_the_probe_at_a_models_own_share(add, section):
    results = {"results": [*probed(0.2, 8.0)["results"], *probed(0.1, 9.0, 0.387)["results"]]}
    add("exlm-k4-p0.387", 1, train=trained(), probe=results)
    assert row(section("table4"), "38.7%: ExLM, k = 4")[6:] == ["20.0", "8.000", "10.0", "9.000"]


def test_fine_tuning_takes_the_place_of_the_probe(tmp_path, add, section):
    write(tmp_path / "settings.json", {"seeds": [1, 2], "finetune_seeds": [1, 2]})
    folder = add("repeated-mlm-k1-p0.15", train=trained())
    for task, seed, *scores in (
        ("MNLI", 1, 0.80, 0.82),
        ("MNLI", 2, 0.82, 0.84),
        ("QNLI", 1, 0.9),
        ("QQP", 1, 0.88),
    ):
        tune(folder, task, seed, *scores)
    assert row(section("figure3"), "1", "15%")[-2:] == ["83.6", "82.0 ± 1.4 (n=2 of 4)"]
    assert row(section("figure8")[:3], "1", "15%")[-2:] == ["84.1", "81.0 ± 1.4 (n=2 of 4)"]
    cells = row(section("table2"), "Vanilla MLM")
    assert cells[1:5] == ["83.6", "82.0 ± 1.4 (n=2 of 4)", "90.0", "90.0 (n=1 of 4)"]
    assert cells[-2:] == ["79.6", "not measured"]  # no seed has all four tasks
    tune(folder, "RTE", 1, 0.6)
    assert row(section("table2"), "Vanilla MLM")[-1] == "79.8 (n=1 of 4)"  # of 81, 90, 88 and 60
    assert row(section("table2"), "ExLM")[-1] == "not run"


def test_curves_are_drawn_from_the_metrics(add, section):
    folder = add("repeated-mlm-k1-p0.15", 1, train=trained())
    figures = [
        {"loss": f"{9 - u / 10}", "ppl": f"{500 - u}", "accuracy": f"{u}", "num_updates": f"{u}"}
        for u in (10, 20)
    ]
    lines = [f"2026-01-01 | INFO | train_inner | {json.dumps(one)}\n" for one in figures]
    (folder / "train.log").write_text("".join(lines))
    assert row(section("figure9"), "1", "15%") == ["1", "15%", "20", "7.00", "20.0", "480.0"]


def test_what_the_study_is_made_of(tmp_path, add, problems):
    write(tmp_path / "settings.json", {"size": "smoke", "data": "the-data", "glue": None, "targets": []})
    add("exlm-k4-p0.15", 7, train=trained())
    add("exlm-k4-p0.15", 8)
    section = study_tables.section(Study(tmp_path, problems), "The study")
    expected = {"size": "smoke", "data": "the-data", "pre-training seeds": "7", "machine": "a laptop"}
    expected |= {"pre-trainings finished": "1 of 2 begun", "commit": "c0ffee"}
    for name, value in expected.items():
        assert row(section.blocks, name) == [name, value]
    assert section.sections == []  # nothing is complete, and nobody asked


def test_what_was_asked_for_and_what_is_complete_is_shown(tmp_path, add, problems):
    for name in ("exlm-k4-p0.15", "repeated-mlm-k1-p0.15"):
        add(name, train=trained(), entropy={"entropy": {"mean": 1.0}})
    write(tmp_path / "settings.json", {"targets": ["table2"]})
    section = study_tables.section(Study(tmp_path, problems), "The study")
    assert [one.title.split(":")[0] for one in section.sections] == ["Table 2", "Table 12"]
    assert "There are results of 0 of 5 pre-trainings." in section.sections[0].blocks[0]


def test_the_case_study_shows_the_explorers_pictures(add, section):
    folder = add("exlm-k4-p0.15", train=trained()) / "example"
    assert section("figure7") == ["There is no picture yet."]
    folder.mkdir()
    for name in ("transitions_one_word", "transitions"):
        (folder / f"{name}.png").write_bytes(b"PNG")
    (folder / "index.html").touch()
    pictures = [section(name)[0][""].stem for name in ("figure7", "figure10")]
    assert pictures == ["transitions_one_word", "transitions"]
    assert section("figure11") == [f"To explore: {folder / 'index.html'}"]
