"""The workflow's settings, as Snakemake's config has them; results of different ones are never mixed."""

import json

import pytest
from lib.command_line import UserError
from lib.workflow import settings

from tests.support.builders import write_file


def test_as_words_of_the_command_line_and_as_yaml(asked, checkpoint):
    """Snakemake turns numbers and YAML's null and lists into Python's."""
    models = f"a={checkpoint},b={checkpoint}"
    words = asked(seeds="1, 2,3", models=models)
    assert words.seeds == [1, 2, 3] and words.models == {"a": str(checkpoint), "b": str(checkpoint)}
    given = {"data": None, "finetune_seeds": 5, "tasks": ["RTE", "MNLI"], "models": {"a": str(checkpoint)}}
    yaml = asked(**given)
    assert (yaml.data, yaml.finetune_seeds, yaml.tasks) == (None, [5], ["RTE", "MNLI"])
    assert yaml.models == given["models"]


def test_flags_in_which_runs_differ(asked):
    with pytest.raises(UserError, match="flags: --arch "):
        asked(flags="--arch x --bf16")


@pytest.fixture
def check(asked, tmp_path):
    """Records what is asked of table 2, as the workflow does when it starts; after the first call, there is a
    result. ``refused``: a pattern of the error."""
    (tmp_path / "out").mkdir()

    def called(refused=None, **given):
        if refused:
            with pytest.raises(UserError, match=rf"(?s)out holds .*\n  {refused}"):
                settings.record(asked(**given), ["table2"])
            return {}
        settings.record(asked(**given), ["table2"])
        write_file(tmp_path / "out/study/exlm-k4-p0.15/seed-1/checkpoint_last.pt", "")
        return json.loads((tmp_path / "out" / settings.SETTINGS_FILE).read_text())

    return called


def test_other_settings_are_refused_once_there_are_results(check, asked):
    settings.record(asked(updates=60), ["figure5"])  # nothing was trained with it
    assert check(updates=61)["targets"] == ["figure5", "table2"]
    check(updates=61, gpus=0, threads=4)
    differing = {"updates": 60, "tokens_per_sample": 64, "sentences": 7, "flags": "--lr 1", "size": "small"}
    for name, value in differing.items():
        check(f"{name}: there ", **{"updates": 61, name: value})


def test_other_contents_of_configurations_and_data_are_refused(check, tmp_path, data, monkeypatch):
    monkeypatch.setattr(settings, "CONFIGS", tmp_path / "configs")
    for content in ("--lr 1e-3\n", "# why\n--lr  1e-3\n"):  # comments do not count
        path = write_file(tmp_path / "configs/pretrain/smoke.flags", content)
        check(data=str(data))
    moved = data.rename(tmp_path / "elsewhere")
    check(data=str(moved))
    path.write_text("--lr 2e-3\n")
    check("configs/pretrain/smoke.flags: there '--lr 1e-3', asked '--lr 2e-3'", data=str(moved))
    (moved / "dict.txt").write_text("other 5\n")
    for given in ({"data": str(moved)}, {}):  # without: the quickstart's corpus
        check(".*data: there '", **given)


def test_seeds_and_data_may_be_added(check, data, glue):
    check(seeds="1,2", data=str(data))
    assert check(seeds="1,3", data=str(data), glue=str(glue))["seeds"] == [1, 2, 3]
    (glue / "RTE-bin" / "input0" / "dict.txt").write_text("more\n")
    check("glue RTE-bin: there", data=str(data), glue=str(glue))


def test_models_and_grids_of_the_tables(check, tmp_path, glue, checkpoint):
    given = {"models": f"a={checkpoint}", "glue": str(glue), "tasks": "RTE"}
    check(**given)
    other = write_file(tmp_path / "other.pt", b"other weights")
    check(**{**given, "models": f"a={checkpoint},b={other}", "tasks": "RTE,CoLA"})
    check("grid: there", **given, grid="table6")
    check("grid: there", **given, finetune_seeds="2,1")
    check("models a: there", **{**given, "models": f"a={other}"})
