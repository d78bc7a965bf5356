"""Results of different settings are never mixed, whatever Snakemake remembers."""

import json

import pytest
from lib.command_line import UserError
from lib.study import fixed


@pytest.fixture
def check(asked, tmp_path):
    """Records what is asked of targets, as the workflow does when it starts."""
    (tmp_path / "out").mkdir()

    def called(targets, **given):
        fixed.check(asked(**given), targets.split())
        return json.loads((tmp_path / "out" / fixed.FILE).read_text())

    return called


def result(tmp_path, path="study/exlm-k4-p0.15/lr-default/seed-1/checkpoint_last.pt") -> None:
    (tmp_path / "out" / path).parent.mkdir(parents=True)
    (tmp_path / "out" / path).touch()


def test_other_settings_are_refused_once_there_are_results(check, tmp_path, data):
    check("table2", updates=60)
    check("table2", updates=61)  # nothing was trained with the first
    result(tmp_path)
    check("figure5", updates=61, gpus=0, threads=4, only="k=4")
    differing = {"updates": 60, "sentences": 7, "flags": "--lr 1", "size": "small", "rates": "1e-3,2e-3"}
    for name, value in differing.items():
        given = {"updates": 61, "seeds": "1,2", "data": str(data) if name == "size" else None, name: value}
        with pytest.raises(UserError, match=rf"holds results of other settings.*\n(.*\n)*  {name}: there "):
            check("table2", **given)


def test_other_contents_of_the_data_are_refused(check, tmp_path, data):
    check("table2", data=str(data))
    result(tmp_path)
    moved = data.rename(tmp_path / "elsewhere")
    check("table2", data=str(moved))
    (moved / "dict.txt").write_text("other 5\n")
    for given in ({"data": str(moved)}, {}):  # without: the quickstart's corpus
        with pytest.raises(UserError, match="  data: there '"):
            check("table2", **given)


def test_what_chooses_is_fixed_and_what_is_added_is_not(check, tmp_path, data, glue):
    rates = {"rates": "1e-3,2e-3", "data": str(data)}
    check("table2", seeds="1,2", **rates)
    result(tmp_path)
    found = check("figure5", seeds="1,3", glue=str(glue), **rates)
    assert found["targets"] == ["table2", "figure5"] and found["seeds"] == [1, 2, 3]
    with pytest.raises(UserError, match="rates: there .*chosen by seed 1.*, asked .*chosen by seed 2"):
        check("table2", seeds="2,1", **rates)
    (glue / "RTE-bin" / "input0" / "dict.txt").write_text("more\n")
    with pytest.raises(UserError, match="glue RTE-bin: there"):
        check("table2", seeds="1,2", glue=str(glue), **rates)


def test_models_and_grids_of_the_tables(check, tmp_path, glue, checkpoint):
    given = {"models": f"a={checkpoint}", "glue": str(glue), "tasks": "RTE"}
    assert check("table3", **given)["points"]["squad2"] == 32
    result(tmp_path, "table3/a/RTE/best/seed-2/result.json")
    other = tmp_path / "other.pt"
    other.write_bytes(b"other weights")
    check("table3", **{**given, "models": f"a={checkpoint},b={other}", "tasks": "RTE,CoLA"})
    for name, value in {"grid": "table6", "only": "lr=2e-5", "finetune_seeds": "2,1"}.items():
        with pytest.raises(UserError, match="  grid: there"):
            check("table3", **given, **{name: value})
    with pytest.raises(UserError, match="  models a: there"):
        check("table3", **{**given, "models": f"a={other}"})
    with pytest.raises(UserError, match="  start of a: there None"):
        check("table3", **given, init_from=f"a={other}")
    check("table2")  # another part


def test_configurations_count_without_their_comments(check, monkeypatch, tmp_path):
    monkeypatch.setattr(fixed, "CONFIGS", tmp_path / "configs")
    path = tmp_path / "configs/size/a.flags"
    path.parent.mkdir(parents=True)
    path.write_text("--lr 1e-3\n")
    check("table2")
    result(tmp_path)
    path.write_text("# why\n--lr  1e-3\n")
    check("table2")
    path.write_text("--lr 2e-3\n")
    with pytest.raises(UserError, match="configs/size/a.flags: there '--lr 1e-3', asked '--lr 2e-3'"):
        check("table2")


def test_a_checkpoint_of_other_weights_has_another_fingerprint(tmp_path):
    import torch

    found = set()
    for value in (0.0, 1.0):
        torch.save({"weights": torch.full((1000, 1000), value)}, tmp_path / "model.pt")
        found.add(fixed.fingerprint(tmp_path / "model.pt"))
    assert len(found) == 2
