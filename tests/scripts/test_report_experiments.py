"""The report puts the paper's numbers and ours where they belong, and leaves blank what is not there."""

import json
import math
from itertools import combinations

import pytest
import report_experiments
from recipes.study.grids import EXPERIMENTS, REPEATED, Run
from recipes.study.results import PAPER, Results, corrupted_share, over_seeds


def add_run(output, run, **results):
    folder = output / "runs" / run.key
    folder.mkdir(parents=True)
    record = {name: getattr(run, name) for name in ("model", "k", "p", "seed", "schedule")}
    record |= {
        "commands": {"train": ["bash", "train.sh", run.key]},
        "commit": "c0ffee",
        "versions": {"torch": "2"},
    }
    record["attempts"] = [{"step": "train", "wall_seconds": 1800, "cpu_seconds": 3600}]
    (folder / "run.json").write_text(json.dumps(record))
    for name, result in results.items():
        (folder / f"{name.replace('_', '-')}.json").write_text(json.dumps(result))


def trained(seconds=3600.0, corrupted=None, tokens=10_000):
    measured = corrupted and {"proportion": corrupted, "tokens": tokens}
    return {"updates": 100, "training_seconds": seconds, "corrupted": measured}


def probed(accuracy, bits=9.0, ratio=0.15):
    return {"results": [{"mask_prob": ratio, "accuracy": accuracy, "bits": bits}]}


@pytest.fixture
def study(tmp_path):
    settings = {"size": "smoke", "data": "the-data"}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    (tmp_path / "runs").mkdir()
    return tmp_path


def section(output, title) -> str:
    """The report's part on a figure or table; the others are not drawn, which takes its time."""
    report = report_experiments.Report(Results(output))
    return getattr(report, title.lower().replace(" ", ""))()


def row(text, *cells) -> list[str]:
    """The one row of a table that begins with these cells."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]
    [found] = [cells_ for cells_ in rows if cells_[: len(cells)] == list(cells)]
    return found


def test_papers_numbers_cover_what_the_paper_has():
    assert PAPER.keys() == EXPERIMENTS.keys()
    cells = {f"{k},{p:g}" for k, ratios in REPEATED.items() for p in ratios}
    grids = [PAPER[name]["grid"] for name in ("figure3", "figure4", "figure5")] + list(
        PAPER["figure8"]["grids"].values()
    )
    assert all(grid.keys() == cells for grid in grids)
    for k, ratios in REPEATED.items():
        for p in ratios:
            assert PAPER["figure4"]["grid"][f"{k},{p:g}"] == pytest.approx(100 * p**k, rel=0.02)
    for name in ("table2", "table4", "table13"):
        keys = {run.key.removesuffix("-s1") for run in EXPERIMENTS[name].runs}
        assert {line["run"] for line in PAPER[name]["rows"]} == keys
        for line in PAPER[name]["rows"]:
            tasks = [line["paper"][task] for task in ("MNLI", "QNLI", "QQP", "RTE")]
            assert line["paper"]["Avg"] == pytest.approx(sum(tasks) / 4, abs=0.1)


def test_mean_and_spread():
    assert over_seeds([]) is None
    assert over_seeds([5.0]).text() == "5.0"
    assert over_seeds([1.0, 2.0, 3.0]).text(2) == "2.00 ± 1.00"


def test_a_report_of_nothing_has_the_papers_numbers_and_blanks(study):
    assert report_experiments.main([str(study)]) == 0
    text = (study / "report.md").read_text()
    assert text.count("\n## ") == len(EXPERIMENTS) + 1
    for name in ("figure3", "figure4", "figure5", "figure8", "figure9", "figure12"):
        assert (study / f"{name}.png").stat().st_size > 5000
        assert f"({name}.png)" in text
    assert row(section(study, "Figure 5"), "8", "78.9%") == ["8", "78.9%", "15.02%", "1.76", ""]
    assert row(section(study, "Table 13"), "ExLM w/ Sparse DAG")[-3:] == ["81.0", "", ""]


def test_numbers_appear_where_they_should(study):
    for seed, bits in ((1, 3.0), (2, 3.5)):
        add_run(
            study,
            Run("repeated-mlm", 2, 0.387, seed),
            train=trained(corrupted=0.152),
            entropy={"entropy": {"mean": bits}, "entropy_posterior": None},
            probe=probed(0.25 + 0.01 * seed),
        )
    cell = ["2", "38.7%", "14.98%"]
    assert row(section(study, "Figure 5"), "2", "38.7%") == [*cell, "2.30", "3.25 ± 0.35"]
    assert row(section(study, "Figure 3"), "2", "38.7%") == [*cell, "83.1", "26.5 ± 0.7"]
    assert row(section(study, "Figure 5"), "2", "15%")[-1] == ""
    apart = (0.152 - 0.387**2) / math.sqrt(0.387**2 * (1 - 0.387**2) / 20_000)
    measured = row(section(study, "Figure 4"), "2", "38.7%")
    assert measured[3:] == ["15.00", "", "15.200 ± 0.000", "20,000", f"{apart:+.1f}", ""]


def test_what_masking_without_replacement_leads_to_expect(study):
    # 3 tokens twice, 2.4 of 6 positions masked: 2 or 3 of them, all equally likely
    both = [
        sum({0, 1} <= set(masks) for masks in combinations(range(6), m)) / math.comb(6, m) for m in (2, 3)
    ]
    assert corrupted_share(2, 0.4, 3) == pytest.approx(0.6 * both[0] + 0.4 * both[1], rel=1e-12)
    assert corrupted_share(1, 0.15, 512) == pytest.approx(0.15, rel=1e-12)
    assert corrupted_share(4, 0.387, 10**7) == pytest.approx(0.387**4, rel=1e-6)
    assert corrupted_share(8, 0.02, 4) == 0.0  # never 8 masks
    run = Run("repeated-mlm", 2, 0.15)
    add_run(study, run, train=trained(corrupted=corrupted_share(2, 0.15, 32)))
    record = study / "runs" / run.key / "run.json"
    content = json.loads(record.read_text())
    content["commands"]["fairseq-train"] = ["--tokens-per-sample", "512", "--tokens-per-sample", "32"]
    record.write_text(json.dumps(content))
    cells = row(section(study, "Figure 4"), "2", "15%")
    assert cells[4] == cells[5] == f"{100 * corrupted_share(2, 0.15, 32):.3f}"
    assert cells[8] in ("+0.0", "-0.0") and float(cells[7]) < 0


def test_tables_of_methods_and_time(study):
    add_run(study, Run("repeated-mlm", 1, 0.15), train=trained(1800), probe=probed(0.2, 8.0))
    add_run(study, Run("repeated-mlm", 1, 0.15, 1, 2), train=trained(3600), probe=probed(0.23, 7.5))
    add_run(
        study,
        Run("exlm", 4, 0.15),
        train=trained(3420),
        probe=probed(0.31, 7.0),
        entropy={"entropy": {"mean": 4.5}, "entropy_posterior": {"mean": 3.25}},
    )
    table = section(study, "Table 2")
    assert row(table, "ExLM") == ["ExLM", "85.1", "91.4", "91.3", "57.6", "81.4", "31.0", "7.000"]
    assert row(table, "Vanilla MLM")[-2:] == ["20.0", "8.000"]
    assert row(table, "Vanilla MLM++")[-2:] == ["23.0", "7.500"]
    assert row(table, "ExLM w/o 2D RoPE")[-2:] == ["", ""]
    assert row(section(study, "Table 4"), "15%: ExLM, k = 4")[6:] == ["31.0", "7.000", "31.0", "7.000"]
    time = section(study, "Table 12")
    assert row(time, "MLM") == ["MLM", "54.7", "0.500", "1.00", "1.00"]
    assert row(time, "ExLM, k = 4") == ["ExLM, k = 4", "104.2", "0.950", "1.90", "1.90"]
    assert row(section(study, "Figure 12"), "15%", "ExLM, k = 4") == [
        "15%",
        "ExLM, k = 4",
        "",
        "4.50",
        "3.25",
    ]


def test_fine_tuning_takes_the_place_of_the_probe(study):
    def tuned(task, *best):
        return {"task": task, "best": dict(zip(("valid", "valid1"), best, strict=False))}

    add_run(
        study,
        Run("repeated-mlm", 1, 0.15),
        train=trained(),
        glue_MNLI_s1=tuned("MNLI", 80.0, 82.0),
        glue_MNLI_s2=tuned("MNLI", 82.0, 84.0),
        glue_QNLI_s1=tuned("QNLI", 90.0),
        glue_QQP_s1=tuned("QQP", 88.0),
        glue_RTE_s1=tuned("RTE", 60.0),
    )
    assert row(section(study, "Figure 3"), "1", "15%")[-2:] == ["83.6", "82.0 ± 1.4"]
    assert row(section(study, "Figure 8").split("QNLI:")[0], "1", "15%")[-2:] == ["84.1", "81.0 ± 1.4"]
    expected = ["83.6", "82.0 ± 1.4", "90.0", "90.0", "90.3", "88.0", "54.7", "60.0", "79.6", "80.0"]
    assert row(section(study, "Table 2"), "Vanilla MLM") == ["Vanilla MLM", *expected]


def test_the_report_says_where_it_comes_from(study):
    add_run(study, Run("exlm", 4, 0.15, seed=7), train=trained())
    report = report_experiments.Report(Results(study))
    text = report.about() + report.commands()
    assert row(text, "size") == ["size", "`smoke`"]
    assert row(text, "pre-training seeds") == ["pre-training seeds", "7"]
    assert row(text, "commit") == ["commit", "`c0ffee`"]
    assert row(text, "time of all commands")[1] == "0.50 h, CPU time 1.00 h"
    assert "bash train.sh exlm-k4-p0.15-s7" in text


def test_curves_are_drawn_from_the_metrics(study):
    run = Run("repeated-mlm", 1, 0.15)
    add_run(study, run, train=trained())
    records = [
        {"kind": "train", "update": u, "loss": 9 - u / 10, "ppl": 500 - u, "accuracy": u} for u in (10, 20)
    ]
    lines = [*records, {"kind": "valid", "update": 20, "loss": 7.5}]
    (study / "runs" / run.key / "metrics.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    assert Results(study).curves(run) == records
    assert row(section(study, "Figure 9"), "1", "15%") == ["1", "15%", "20", "7.00", "20.0", "480.0"]


def test_a_folder_of_something_else(tmp_path, capsys):
    assert report_experiments.main([str(tmp_path)]) == 2
    assert "has no settings.json" in capsys.readouterr().err
