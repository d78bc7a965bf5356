"""Comparisons: only runs at the best learning rate and of other seeds count; their measures are shown."""

import pytest
from recipes.report import study_tables
from recipes.report.comparisons import Comparison, first_below, mean_curve, thresholds
from recipes.report.page import Pictures
from recipes.report.study import Study, label
from recipes.study.grids import COMPARISONS
from recipes.tables import Table, Value

from tests.recipes.report.conftest import blocks_of, rows_of, trained, write

MLM, EXLM, PENALTY = "repeated-mlm-k1-p0.15", "exlm-k4-p0.15", "exlm-k4-p0.15-penalty2"


def probed(bits, share=0.15):
    return {"results": [{"mask_prob": share, "accuracy": 0.5, "bits": bits}]}


def over_training(curve: dict, share=0.15):
    """A curve.json, or a states.json, by updates."""
    rows = [{"updates": u, "results": [{"mask_prob": share, **one}]} for u, one in curve.items()]
    return {"rows": rows}


def mean(value):
    return {"mean": value, "standard_error": 0.1, "tokens": 10, "sentences": 2}


@pytest.fixture
def chosen(tmp_path):
    """Adds a row whose learning rate is chosen by seed 1."""

    def added(name, lr=1e-3):
        write(tmp_path / f"rates/{name}.json", {"lr": lr, "seed": 1, "bits": {}})

    return added


@pytest.fixture
def comparison(tmp_path, reader):
    """The sections of a comparison that was asked for, by the beginning of their titles."""

    def built(name, **asked):
        write(tmp_path / "study.json", {"targets": [name], **asked})
        whole = study_tables.section(Study(tmp_path, reader), "The study")
        [found] = [one for one in whole.sections if one.title == f"Comparison: {COMPARISONS[name].title}"]
        return {one.title.split()[0]: one for one in found.sections}

    return built


def test_only_the_best_rate_and_other_seeds_count(tmp_path, add, chosen, comparison, reader):
    for lr, bits in ((5e-4, 5.0), (1e-3, 4.0), (2e-3, 4.5)):
        add(f"{MLM}-lr{lr:g}-seed-1", train=trained(60), probe=probed(bits))
    for seed, bits in ((2, 3.0), (3, 4.0)):
        add(f"{MLM}-lr0.001-seed-{seed}", train=trained(120), probe=probed(bits))
        add(f"{MLM}-lr0.002-seed-{seed}", train=trained(60), probe=probed(0.5))
    add(f"{EXLM}-lr0.001-seed-1", train=trained(60), probe=probed(2.5))
    add(f"{EXLM}-lr0.001-seed-2", train=trained(60), probe=probed(2.5))
    chosen(MLM)
    sections = comparison("penalty", seeds=[1, 2, 3, 4])
    table = rows_of(blocks_of(sections["Recovery"], Table)[0])
    assert table["MLM"] == ["0.001", *("50.0 ± 0.0 (n=2 of 3)", "3.500 ± 0.707 (n=2 of 3)"), *TWO_MINUTES, ""]
    assert table["ExLM, k = 4"] == ["", *["rate not chosen"] * 3, "", ""]
    assert table["MLM++"] == ["", *["not run"] * 3, "", ""]
    tried = blocks_of(sections["Learning"], Table)[0]
    assert list(tried.head) == ["model", "0.0005", "0.001", "0.002", "remark"]
    assert rows_of(tried)["MLM"] == ["5.000", "4.000 (best)", "4.500", ""]
    assert rows_of(tried)["ExLM, k = 4"] == ["", "2.500", "", "not chosen yet"]
    assert rows_of(tried)["MLM++"] == ["", "", "", "not run"]
    assert reader.problems == []


TWO_MINUTES = ["2.0 ± 0.0 (n=2 of 3)", "1.00"]


def test_the_edge_of_the_rates_is_told(tmp_path, add, chosen, comparison):
    for name, best in ((MLM, 2e-3), (EXLM, 1e-3)):
        chosen(name, best)
        for lr in (1e-3, 2e-3):
            add(f"{name}-lr{lr:g}-seed-1", train=trained(60), probe=probed(4 + 1e3 * abs(lr - best)))
    tried = rows_of(blocks_of(comparison("penalty")["Learning"], Table)[0])
    assert tried["MLM"][-1] == "the highest rate tried is best"
    assert tried["ExLM, k = 4"][-1] == "the lowest rate tried is best"


def test_runs_without_a_rate_are_not_mixed_with_those_that_have_one(tmp_path, add, chosen, reader):
    for key, bits in ((f"{MLM}-seed-2", 9.0), (f"{MLM}-lr0.001-seed-2", 3.0), (f"{EXLM}-seed-2", 5.0)):
        add(key, train=trained(), probe=probed(bits))
    chosen(MLM)
    study = Study(tmp_path, reader)
    found = {run.name: [folder.name for folder in study.folders(run)] for run in COMPARISONS["penalty"].runs}
    assert found[MLM] == [f"{MLM}-lr0.001-seed-2"] and found[EXLM] == [f"{EXLM}-seed-2"]
    assert found[PENALTY] == []
    [problem] = reader.problems
    assert f"{MLM}: runs at the size's own learning rate are not used beside" in problem


def test_a_damaged_choice_is_told_and_nothing_counts(tmp_path, add, reader):
    add(f"{MLM}-lr0.001-seed-2", train=trained(), probe=probed(3.0))
    write(tmp_path / f"rates/{MLM}.json", {"lr": "high"})
    study = Study(tmp_path, reader)
    [run] = study.undecided
    assert study.folders(run) == [] and study.missing(run, "probe.json") == "rate not chosen"
    assert "could not convert" in reader.problems[0]


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_comparison_has_a_style_for_each_model(name, tmp_path, add, reader):
    runs = COMPARISONS[name].runs
    for run in runs:
        add(run.key, train=trained(), probe=probed(4.0, run.own_ratio))
    compared = Comparison(Study(tmp_path, reader), name, "")
    styles = [tuple(style.values()) for style in compared.styles.values()]
    assert len(set(styles)) == len({label(run) for run in runs})


def test_runs_with_a_penalty_are_rows_of_their_own(tmp_path, add, comparison):
    add(f"{EXLM}-seed-1", train=trained(), probe=probed(4.0))
    add(f"{PENALTY}-seed-1", train=trained(), probe=probed(2.0))
    sections = comparison("penalty")
    table = rows_of(blocks_of(sections["Recovery"], Table)[0])
    assert (table["ExLM, k = 4"][2], table["ExLM, k = 4, penalty 2"][2]) == ("4.000", "2.000")
    assert "size's learning rate" in sections["Learning"].blocks[0]


def test_learning_curves(tmp_path, add, comparison):
    for seed, last in ((1, 2.0), (2, 4.0)):
        curve = {100: {"bits": 6.0}, 200: {"bits": last}}
        add(f"{EXLM}-seed-{seed}", train=trained(60, updates=200), curve=over_training(curve))
    single = {"updates": 100, **probed(3.5)}
    add(f"{MLM}-seed-1", train=trained(60, updates=100), curve=single)
    section = comparison("penalty")["Recovery"]
    table = blocks_of(section, Table)[0]
    rows = {name: dict(zip(table.head[1:], row, strict=True)) for name, row in rows_of(table).items()}
    exlm = rows["ExLM, k = 4"]
    assert exlm["below 5 bits at update"] == "138 ± 18 (n=2)"  # 125 and 150
    assert exlm["below 3 bits at update"] == "175 (n=1 of 2)"
    assert rows["MLM"]["below 5 bits at update"] == "100" and rows["MLM"]["below 3 bits at update"] == "never"
    assert rows["MLM++"]["below 5 bits at update"] == "not run"
    names = [picture.name for block in blocks_of(section, Pictures) for picture in block.pictures]
    assert names == ["penalty-bits", "penalty-time", "penalty-flops"]


def test_where_a_curve_falls_below():
    assert first_below({100: 6.0, 200: 4.0, 300: 7.0}, 5.0) == 150
    assert first_below({100: 4.0}, 5.0) == 100
    assert first_below({100: 6.0}, 5.0) is None and first_below({}, 5.0) is None


def test_thresholds_are_those_that_most_curves_cross():
    found = [{1: 12.3, 2: 6.5}, {1: 12.1, 2: 8.5}, {1: 10.0, 2: 9.0}]
    # all cross 10; two 9, 11 and 12; one 7 and 8
    assert thresholds(found) == [11, 10, 9]
    assert thresholds([]) == [] and thresholds([{1: 3.4, 2: 3.2}]) == []


def test_the_mean_curve_is_of_all_seeds():
    assert mean_curve([]) == {}
    curve = mean_curve([{1: 2.0, 2: 3.0}, {2: 5.0, 3: 1.0}])
    assert curve == {2: Value((3.0, 5.0))}


def test_the_cost_in_flops(add, comparison):
    for key, flops in ((MLM, 1e9), (f"{MLM}-x2", 2e9), (EXLM, 1.7e9)):
        add(f"{key}-seed-1", train=trained(60, flops=flops), probe=probed(4))
    rows = rows_of(blocks_of(comparison("penalty")["Recovery"], Table)[0])
    assert [rows[name][-1] for name in ("MLM", "MLM++", "ExLM, k = 4")] == ["1.00", "2.00", "1.70"]


def test_all_measures(tmp_path, add, comparison):
    share = 0.387
    joint = {"results": [{"mask_prob": share, "joint": mean(3.0), "marginal": mean(3.5), "gain": mean(0.5)}]}
    filled = {"valid": mean(0.5), "equal": mean(0.25), "distinct": mean(0.4), "special": mean(0.0)}
    atoms = {name: mean(value) for name, value in zip(ROWS, (0.9, 0.8, 0.7, 0.5, 0.4), strict=True)}
    states = {
        "entropy": 0.5,
        "posterior_entropy": 0.25,
        "divergence": 0.125,
        "second_state": 0.3,
        "own_share": 0.9,
    }
    states = {name: mean(value) for name, value in states.items()}
    add(
        "exlm-k4-p0.387-seed-1",
        train=trained(),
        probe={"results": [*probed(5.0)["results"], *probed(4.0, share)["results"]]},
        joint=joint,
        filling={"results": [{"mask_prob": share, "fillings": 10, **filled}]},
        atoms={"results": dict.fromkeys(("hydrogens", "degree", "ring", "charge"), atoms)},
        states=over_training({50: {name: mean(9.0) for name in states}, 100: states}, share),
    )
    sections = comparison("measures")

    def row(title, *first):
        table = blocks_of(sections[title], Table)[0]
        [found] = [list(row[len(first) :]) for row in table.rows if tuple(row[: len(first)]) == first]
        return found

    exlm = ("ExLM, k = 4", "38.7%")
    assert row("Recovery", *exlm)[:5] == ["", "50.0", "5.000", "50.0", "4.000"]
    assert row("Joint", *exlm) == ["3.000", "3.500", "0.500"]
    assert row("Filling", *exlm) == ["50.0", "25.0", "40.0"]
    assert row("Atom", *exlm) == ["90.0"] * 4
    assert [row("Atom", control, "")[0] for control in ROWS[1:]] == ["80.0", "70.0", "50.0", "40.0"]
    assert row("Use", *exlm) == ["0.50", "0.25", "0.125", "30.0", "90.0"]
    assert row("Joint", "MLM", "38.7%") == ["not run"] * 3
    models = {row[0] for row in blocks_of(sections["Use"], Table)[0].rows}
    assert models == {"ExLM, k = 2", "ExLM, k = 4", "ExLM, k = 4, penalty 2"}  # the others have no paths
    assert all(isinstance(block, (str, Table, Pictures)) for one in sections.values() for block in one.blocks)


ROWS = ("model", "untrained", "token", "shuffled", "majority")
