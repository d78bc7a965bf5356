"""Table 1 from results, beside the paper's."""

import pytest
from lib.command_line import UserError
from lib.report import table1
from lib.tables import Table

from tests.lib.report.conftest import blocks_of, made_of, molecule_result, rows_of, write


def remarks_of(sections) -> list[str]:
    lines = "\n".join(block for section in sections for block in blocks_of(section, str)).splitlines()
    return [line.removeprefix("- ") for line in lines if line.startswith("- ")]


def test_table_1_and_regressions(tmp_path, reader):
    for dataset, aucs in (("bbbp", (0.70, 0.72, 0.77)), ("bace", (0.8,))):
        for seed, auc in enumerate(aucs, start=1):
            molecule_result(tmp_path / "a" / dataset / f"seed-{seed}", dataset, seed, auc)
    molecule_result(tmp_path / "b/esol/seed-1", "esol", 1, 0.5, "regression")
    models = [table1.read(name, tmp_path / name, reader) for name in ("a", "b")]
    classifications, regressions = table1.sections(models)
    rows = rows_of(blocks_of(classifications, Table)[0])
    # the mean of 70, 72 and 77 is 73; their sample deviation is 3.6
    assert rows["a (ours)"] == ["80.0 (n=1 of 3)", "73.0 ± 3.6 (n=3)", *["not run"] * 5, "76.5 (2 of 7)"]
    assert rows["ExLM"] == ["79.6", "72.8", "78.2", "64.5", "78.8", "91.6", "66.9", "76.1"]
    assert rows_of(blocks_of(regressions, Table)[0]) == {"b": ["0.500"]}


def test_the_mean_is_over_the_papers_seven_sets(tmp_path, reader):
    for i, dataset in enumerate(["bace", "bbbp", "tox21", "sider", "muv", "clintox", "toxcast", "own"]):
        molecule_result(tmp_path / dataset, dataset, 1, 0.5 + i / 10 * (dataset != "own"))
    table = blocks_of(table1.sections([table1.read("m", tmp_path, reader)])[0], Table)[0]
    assert list(table.head)[-2:] == ["own", "Mean"]
    assert rows_of(table)["m (ours)"][-2:] == ["50.0", "80.0"]  # of the seven


def test_seeds_that_were_asked_for(tmp_path, reader):
    molecule_result(tmp_path / "a/bbbp/seed-1", "bbbp", 1, 0.7)
    [section] = table1.sections([table1.read("a", tmp_path / "a", reader, seeds=(1, 2))])
    assert rows_of(blocks_of(section, Table)[0])["a (ours)"][1] == "70.0 (n=1 of 2)"
    write(tmp_path / "a/model.json", {"name": "a", "seeds": [1, 2, 3]})
    [section] = table1.sections([table1.read("a", tmp_path / "a", reader)])
    assert rows_of(blocks_of(section, Table)[0])["a (ours)"][1] == "70.0 (n=1 of 3)"


def test_damaged_and_unfinished_results_are_marked(tmp_path, reader):
    (tmp_path / "a/bbbp/seed-1").mkdir(parents=True)
    (tmp_path / "a/bbbp/seed-1/metrics.json").write_text("{")
    write(
        tmp_path / "a/muv/seed-1/metrics.json",
        {"dataset": "muv", "seed": 1, "kind": "clustering", "test": {}},
    )
    (tmp_path / "a/tox21/seed-1").mkdir(parents=True)
    model = table1.read("a", tmp_path / "a", reader)
    assert model and not model.runs
    [section] = table1.sections([model])
    cells = rows_of(blocks_of(section, Table)[0])["a (ours)"]
    assert cells == ["not run", "damaged", "unfinished", "not run", "damaged", "not run", "not run", "-"]
    assert len(reader.problems) == 2 and "unknown kind 'clustering'" in reader.problems[1]


def test_a_score_that_is_not_defined(tmp_path, reader):
    molecule_result(tmp_path / "seed-1", "bbbp", 1, None)
    molecule_result(tmp_path / "seed-2", "bbbp", 2, 0.7)
    sections = table1.sections([table1.read("a", tmp_path, reader)])
    assert rows_of(blocks_of(sections[0], Table)[0])["a (ours)"][1] == "70.0 (n=1 of 2)"
    assert remarks_of(sections) == ["a, bbbp, seed 1: no AUC on the test set"]


def test_one_seed_twice_is_an_error(tmp_path, reader):
    molecule_result(tmp_path / "one", "bbbp", 1, 0.7)
    molecule_result(tmp_path / "two", "bbbp", 1, 0.9)
    with pytest.raises(UserError, match="seed 1 of bbbp is in .*one and in .*two"):
        table1.read("a", tmp_path, reader)


def test_test_sets_that_differ(tmp_path, reader):
    scaffold, random = {"kind": "scaffold", "seed": None}, {"kind": "random", "seed": 5}
    molecule_result(tmp_path / "a/1", "bbbp", 1, 0.7, split=scaffold, test={"rows_sha256": "x"})
    molecule_result(tmp_path / "b/1", "bbbp", 1, 0.7, split=random, test={"rows_sha256": "y"})
    models = [table1.read(name, tmp_path / name, reader) for name in "ab"]
    assert remarks_of(table1.sections(models)) == [
        "b, bbbp: a random split; the paper's are by scaffold",
        "bbbp: not all results are of the same test molecules: a (seed 1, scaffold split), but b (seed 1, "
        "random split 5)",
    ]
    # equal rows are equal, however they were split
    molecule_result(tmp_path / "b/1", "bbbp", 1, 0.7, split=scaffold, test={"rows_sha256": "x"})
    models = [table1.read(name, tmp_path / name, reader) for name in "ab"]
    assert remarks_of(table1.sections(models)) == []


def test_molecules_that_a_model_cannot_read(tmp_path, reader):
    molecule_result(tmp_path / "1", "tox21", 1, 0.7, test={"unreadable": 3})
    assert remarks_of(table1.sections([table1.read("a", tmp_path, reader)])) == [
        "a, tox21: 3 molecules of the test set, which it cannot read, are predicted as the mean of "
        "the training labels"
    ]


def test_commands_of_the_results(tmp_path, reader):
    molecule_result(tmp_path / "forest", "bbbp", 2, 0.7)
    molecule_result(tmp_path / "model", "bbbp", 1, 0.7)
    made_of(tmp_path / "model", "bash", "finetune_table1.sh")
    table1.read("a", tmp_path, reader)
    assert reader.commands == {str(tmp_path / "model"): "bash finetune_table1.sh"}
    assert reader.problems == []
