"""The results that each target needs, and the commands that make them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from lib.command_line import UserError
from lib.study import results


def names(settings, paths) -> list[str]:
    return [str(Path(path).relative_to(settings.output)) for path in paths]


def test_the_quality_of_a_run_is_the_probe_or_fine_tuning(asked, data, glue):
    only, place = "name=exlm-k4-p0.15", "study/exlm-k4-p0.15/lr-default/seed-1"
    probed = asked(only=only)
    assert names(probed, results.files_of(probed, "table2")) == [f"{place}/train.json", f"{place}/probe.json"]
    found = asked(only=only, data=str(data), glue=str(glue), finetune_seeds="1,2")
    tuned = [
        f"{place}/glue/{task}/seed-{s}/result.json" for task in ("MNLI", "QNLI", "QQP", "RTE") for s in (1, 2)
    ]
    assert names(found, results.files_of(found, "table2")) == [f"{place}/train.json", *tuned]
    only = asked(only="name=repeated-mlm-k2-p0.15", data=str(data), glue=str(glue))
    assert [path.parts[-3] for path in results.files_of(only, "figure3")[1:]] == ["MNLI"] * 3


def test_shared_runs_stand_once_with_all_their_measures(asked):
    runs = results.study_runs(asked(), "study")
    assert len(runs) == len({run.folder for run in runs}) == 14 + 12 + 3 + 1  # by k and p, ablations, ++
    measures = {run.name: found for run, found in runs.items()}
    assert measures["repeated-mlm-k1-p0.15"] == {"entropy", "quality", "quality-mnli"}
    assert measures["exlm-sparse-k4-p0.15"] == {"quality"}
    chosen = results.study_runs(asked(only="k=4,p=0.15", seeds="3,5"), "figure12")
    assert [str(run.folder) for run in chosen] == [f"exlm-k4-p0.15/lr-default/seed-{seed}" for seed in (3, 5)]


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("k=four", "k is a number"),
        ("ratio=1", "only=ratio=1: a run has name, model, k, p, times"),
        ("k=3", "only=k=3 leaves no run of figure4, which has k: 1, 2, 4, 8"),
    ],
)
def test_filters_that_leave_nothing(asked, only, message):
    with pytest.raises(UserError, match=message):
        results.study_runs(asked(only=only), "figure4")


def test_learning_rates_are_chosen_by_the_first_seed_and_reported_on_the_others(asked):
    settings = asked(rates="1e-3,2e-3", seeds="1,2,5", only="p=0.15,k=4")
    found = names(settings, results.files_of(settings, "graphs"))
    reported = [name for name in found if "exlm-local" in name]
    assert reported == [
        f"study/exlm-local-p15/lr-best/seed-{seed}/{name}.json"
        for seed in (2, 5)
        for name in ("train", "probe", "curve", "joint", "states")
    ]
    assert names(settings, results.rate_files(settings, "exlm-local-p15")) == [
        f"study/exlm-local-p15/lr-{lr}/seed-1/joint.json" for lr in ("0.001", "0.002")
    ]
    assert len(results.rate_files(settings, "exlm-p15")) == 3  # has rates of its own
    assert names(settings, results.rate_files(settings, "exlm-k4-p0.15"))[0].endswith("seed-1/probe.json")
    single = asked()  # a single seed cannot choose and be reported
    assert all("lr-default/seed-1" in name for name in names(single, results.files_of(single, "graphs")))


def test_what_molecules_and_paths_have(asked, data):
    run = results.run_named(asked(), "exlm-p15")
    assert results.applies("joint", run, None) and results.applies("states", run, None)
    assert not results.applies("states", results.run_named(asked(), "mlm-p15"), None)
    assert not results.applies("filling", run, str(data))
    (data / "manifest.json").write_text(json.dumps({"settings": {"smiles": True}}))
    assert results.applies("filling", run, str(data)) and results.applies("atoms", run, str(data))


def test_commands_of_measures(asked):
    settings = asked(sentences=9)
    run = results.run_named(settings, "exlm-p38")
    folder = f"{settings.output}/study/{run.folder}"
    command = results.measure_command(settings, "probe", run)
    assert (
        command
        == f"fs_plugins.analysis probe {folder}/checkpoint_last.pt --mask-prob 0.15 0.387 --max-sentences 9"
    )
    command = results.measure_command(settings, "states", run)
    assert command == f"fs_plugins.analysis states {folder}/checkpoint_*.pt --mask-prob 0.387"
    repeated = results.run_named(settings, "repeated-mlm-k2-p0.387")  # is probed at 15%
    assert "--mask-prob 0.15 --max" in results.measure_command(settings, "probe", repeated)


@pytest.mark.parametrize(
    ("given", "name", "options"),
    [
        ({}, "exlm-k4-p0.15", "--k 4 --p 0.15 --seed 1"),
        ({}, "repeated-mlm-k1-p0.15-x2", "--k 1 --p 0.15 --seed 1 --updates 240"),
        ({"size": "paper"}, "repeated-mlm-k1-p0.15-x2", "--k 1 --p 0.15 --seed 1 --updates 100000"),
        ({"updates": 30}, "mlm-p38-x4", "--p 0.387 --seed 1 --updates 120"),
        (
            {"updates": 30, "flags": "--dropout 0.1"},
            "exlm-lattice-p38",
            "--k 4 --p 0.387 --seed 1 --updates 30 --dropout 0.1 --expand-from-layer 0",
        ),
    ],
)
def test_options_of_a_run(asked, given, name, options):
    settings = asked(**given)
    run = results.run_named(settings, name)
    assert results.pretrain_options(settings, run) == options.split()
    assert (
        results.pretrain_options(settings, replace(run, lr="best")) == options.split()
    )  # its rate is in a file
    tried = results.pretrain_options(settings, replace(run, seed=3, lr="0.002"))
    assert tried[tried.index("--seed") + 1] == "3" and tried[tried.index("--lr") + 1] == "0.002"


def test_table_3(asked, glue, checkpoint):
    only = "batch=16,epochs=3,warmup=0.06"
    settings = asked(glue=str(glue), models=f"a={checkpoint},b={checkpoint}", tasks="RTE", only=only)
    keys = [f"lr{rate}-b16-e3-w0.06" for rate in ("2e-5", "3e-5", "4e-5", "5e-5")]
    expected = [f"table3/a/glue/RTE/{key}/seed-1/result.json" for key in keys]
    assert names(settings, results.grid_files(settings, "a", "RTE")) == expected
    expected = [
        f"table3/{name}/glue/RTE/{file}"
        for name in "ab"
        for file in ("best.json", *(f"best/seed-{seed}/result.json" for seed in (2, 3, 4, 5)))
    ]
    assert names(settings, results.files_of(settings, "table3")) == expected
    every = asked(glue=str(glue), models=f"a={checkpoint}")
    assert sum(len(results.grid_files(every, "a", task)) for task in results.glue_tasks(every)) == 304
    squad = asked(squad=str(glue), models=f"a={checkpoint}", finetune_seeds="1,2")
    assert names(squad, results.files_of(squad, "table3")) == [
        f"table3/a/squad/seed-{s}/result.json" for s in (1, 2)
    ]


def test_what_table_3_needs(asked, glue, checkpoint):
    with pytest.raises(UserError, match="table3 needs models=NAME=CHECKPOINT"):
        results.files_of(asked(glue=str(glue)), "table3")
    models = f"a={checkpoint}"
    with pytest.raises(UserError, match="table3 needs glue=FOLDER"):
        results.files_of(asked(models=models), "table3")
    with pytest.raises(UserError, match="has no TASK-bin"):
        results.files_of(asked(models=models, glue=str(glue / "MNLI-bin")), "table3")
    with pytest.raises(ValueError, match="only=k=4: a fine-tuning has lr, batch, epochs, warmup"):
        results.files_of(asked(models=models, glue=str(glue), only="k=4"), "table3")
    with pytest.raises(UserError, match="flags: --lr, --max-epoch would apply to all points of a grid"):
        results.files_of(
            asked(models=models, glue=str(glue), flags="--lr 1e-3 --max-epoch 1 --bf16"), "table3"
        )


def test_table_1(asked, tmp_path, checkpoint):
    sets = {name: tmp_path / name for name in ("bace", "bbbp")}
    for folder in sets.values():
        folder.mkdir()
    given = {"models": f"exlm={checkpoint}", "finetune_seeds": 1}
    settings = asked(moleculenet=",".join(f"{name}={folder}" for name, folder in sets.items()), **given)
    with pytest.raises(UserError, match="has no molecules.json"):
        results.files_of(settings, "table1")
    for folder in sets.values():
        (folder / "molecules.json").write_text("{}")
    found = names(settings, results.files_of(settings, "table1"))
    assert found == [
        f"table1/{m}/{d}/seed-1/result.json" for m in ("exlm", "untrained", "forest") for d in sets
    ]
    with pytest.raises(UserError, match="table1 needs moleculenet=SET=FOLDER"):
        results.files_of(asked(**given), "table1")
