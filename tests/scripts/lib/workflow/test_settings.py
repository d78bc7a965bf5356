"""The workflow's settings, as Snakemake's config has them; results of different ones are never mixed."""

import json

import pytest
from lib.command_line import UserError
from lib.workflow import settings

from tests.support.builders import write_file


def test_as_words_of_the_command_line_and_as_yaml(asked, checkpoint):
    """Snakemake turns numbers and YAML's null and lists into Python's."""
    found = asked(
        **{
            "size": "small",
            "data": None,
            "seeds": "1,2,3",
            "finetune_seeds": 5,
            "threads": "2",
            "updates": 40,
        },
        **{"only": "k=4,p=0.15", "models": f"exlm={checkpoint},mlm={checkpoint}", "flags": "--dropout 0.1"},
        **{"tasks": ["RTE", "MNLI"], "rates": "1e-3, 2e-3"},
    )
    assert found.data is None and found.seeds == [1, 2, 3] and found.finetune_seeds == [5]
    assert (
        found.only == {"k": 4, "p": 0.15} and found.rates == [1e-3, 2e-3] and found.tasks == ["RTE", "MNLI"]
    )
    assert found.models == {"exlm": str(checkpoint), "mlm": str(checkpoint)}
    assert (found.updates, found.gpus, found.threads, found.jobs_per_gpu) == (40, 0, 2, 1)
    assert (found.sentences, asked().sentences, asked(sentences=7).sentences) == (2000, 500, 7)
    found = asked(models={"exlm": str(checkpoint)}, only={"p": 0.0225, "lr": 2e-5}, max_epoch=4)
    assert found.models == {"exlm": str(checkpoint)} and found.only == {"p": 0.0225, "lr": "2e-05"}
    assert found.point == {"lr": "2e-05", "epochs": "4"}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"flags": "--arch x --bf16"}, "flags: --arch "),
        ({"rates": "1e-3,2e-3"}, "rates: give two"),
    ],
)
def test_what_is_refused(given, named):
    with pytest.raises(UserError, match=named):
        settings.read({"output": "runs/x", **given})


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
        write_file(tmp_path / "out/study/exlm-k4-p0.15/lr-default/seed-1/checkpoint_last.pt", "")
        return json.loads((tmp_path / "out" / settings.SETTINGS_FILE).read_text())

    return called


def test_other_settings_are_refused_once_there_are_results(check, asked):
    settings.record(asked(updates=60), ["figure5"])  # nothing was trained with it
    assert check(updates=61)["targets"] == ["figure5", "table2"]
    check(updates=61, gpus=0, threads=4, only="k=4")
    differing = {"updates": 60, "tokens_per_sample": 64, "sentences": 7, "flags": "--lr 1", "size": "small"}
    for name, value in {**differing, "rates": "1e-3,2e-3"}.items():
        check(f"{name}: there ", **{"updates": 61, "seeds": "1,2", name: value})


def test_other_contents_of_the_sizes_configuration_and_of_the_data_are_refused(
    check, tmp_path, data, monkeypatch
):
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


def test_what_chooses_is_fixed_and_what_is_added_is_not(check, data, glue):
    rates = {"rates": "1e-3,2e-3", "data": str(data)}
    check(seeds="1,2", **rates)
    assert check(seeds="1,3", glue=str(glue), **rates)["seeds"] == [1, 2, 3]
    check("rates: there .* seed 1.*, asked .* seed 2", seeds="2,1", **rates)
    (glue / "RTE-bin" / "input0" / "dict.txt").write_text("more\n")
    check("glue RTE-bin: there", seeds="1,2", glue=str(glue), **rates)


def test_models_and_grids_of_the_tables(check, tmp_path, glue, checkpoint):
    given = {"models": f"a={checkpoint}", "glue": str(glue), "tasks": "RTE"}
    check(**given)
    other = write_file(tmp_path / "other.pt", b"other weights")
    check(**{**given, "models": f"a={checkpoint},b={other}", "tasks": "RTE,CoLA"})
    check("grid: there", **given, grid="table6")
    check("grid: there", **given, only="lr=2e-5")
    check("grid: there", **given, finetune_seeds="2,1")
    check("models a: there", **{**given, "models": f"a={other}"})
    check("init_from a: there", **given, init_from=f"a={other}")
