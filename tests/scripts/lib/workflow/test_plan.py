"""The results that each target needs, and the commands that make them (test_workflow.py runs the engine)."""

from dataclasses import replace
from pathlib import Path

import pytest
from lib.workflow import plan

EXLM = "exlm-k4-p0.15"


def needed(settings, target) -> list[str]:
    """In the output."""
    return names(settings, plan.files_of(settings, target))


def names(settings, paths) -> list[str]:
    return [str(Path(path).relative_to(settings.output)) for path in paths]


@pytest.fixture
def sets(tmp_path):
    """moleculenet=, as far as it is looked at before a fine-tuning."""
    for name in ("bace", "bbbp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "molecules.json").write_text("{}")
    return ",".join(f"{name}={tmp_path / name}" for name in ("bace", "bbbp"))


def test_the_quality_of_a_run_is_the_probe_or_fine_tuning(asked, data, glue):
    place = f"study/{EXLM}/lr-default/seed-1"
    assert needed(asked(only=f"name={EXLM}"), "table2") == [f"{place}/train.json", f"{place}/probe.json"]
    found = asked(only=f"name={EXLM}", data=str(data), glue=str(glue), finetune_seeds="1,2")
    folders = (f"{task}/table6/seed-{s}" for task in ("MNLI", "QNLI", "QQP", "RTE") for s in (1, 2))
    tuned = [f"{place}/glue/{folder}/result.json" for folder in folders]
    assert needed(found, "table2") == [f"{place}/train.json", *tuned]
    command = plan.finetune_command(found, "s", f"{place}/glue", "RTE", "table6", "2")
    assert command[:4] == ["bash", "s/finetune_glue.sh", "RTE", f"{found.output}/{place}/checkpoint_last.pt"]
    point = "--drop-checkpoints --lr 5e-5 --batch-size 32 --max-epoch 3 --warmup-ratio 0.06 --seed 2"
    assert " ".join(command[6:]).startswith(point)


def test_shared_runs_stand_once_with_all_their_measures(asked):
    found = needed(asked(), "study")
    assert len(set(found)) == len(found)
    exlm = [Path(name).name for name in found if f"{EXLM}/" in name]
    assert sorted(exlm) == ["entropy.json", "index.html", "probe.json", "train.json"]


def test_learning_rates_are_chosen_by_the_first_seed_and_reported_on_the_others(asked):
    settings = asked(rates="1e-3,2e-3", seeds="1,2,5", only="p=0.15,k=4")
    reported = [name for name in needed(settings, "graphs") if "exlm-local" in name]
    measures = ("train", "probe", "curve", "joint", "states")
    folder = "study/exlm-local-p15/lr-best/seed"
    assert reported == [f"{folder}-{seed}/{name}.json" for seed in (2, 5) for name in measures]
    assert len(plan.trials(settings, "study/exlm-local-p15")) == 2
    assert len(plan.trials(settings, "study/exlm-p15")) == 3  # has rates of its own
    assert plan.trials(settings, f"study/{EXLM}")[0].name == "probe.json"
    assert not [name for name in needed(asked(only="k=1"), "graphs") if "states" in name]  # it has no paths
    # a single seed cannot choose and be reported; rates of a row count among others alone
    for seeds in ("1", "1,2"):
        assert all("lr-default/seed-" in name for name in needed(asked(seeds=seeds), "graphs"))


@pytest.mark.parametrize(
    ("given", "name", "words"),
    [
        ({}, EXLM, "smoke data --k 4 --p 0.15 --seed 1 --cpu"),
        (
            {"size": "paper", "gpus": 8},
            "mlm-p38-x4",
            "paper data --p 0.387 --seed 1 --updates 200000 --gpus 8",
        ),
        ({"updates": 30}, "mlm-p38-x4", "smoke data --p 0.387 --seed 1 --updates 120 --cpu"),
        ({"size": "paper"}, "exlm-text", "base data --k 4 --p 0.15 --seed 1 --cpu"),
        ({"tokens_per_sample": 64}, "mlm-p38", "smoke data --p 0.387 --seed 1 --tokens-per-sample 64 --cpu"),
        ({"size": "paper"}, "exlm-smiles", "paper smiles --k 2 --p 0.15 --seed 1 --cpu"),
    ],
)
def test_commands_of_pre_trainings(asked, data, given, name, words):
    settings = asked(**{"gpus": 0, **given}, data=str(data), smiles=str(data.parent))
    run = plan.run_named(settings, name)
    command = plan.pretrain_command(settings, "s", run)
    script = "s/pretrain_smiles.sh" if "smiles" in name else "s/pretrain_text.sh"
    assert command[:3] == ["bash", script, run.model]
    assert command.pop(5) == f"{settings.output}/study/{run.folder}"
    size, place, options = words.split(maxsplit=2)
    assert command[3:] == [size, str(data if place == "data" else data.parent), *options.split()]
    tried = plan.pretrain_command(settings, "s", replace(run, lr="0.002"))
    assert tried[tried.index("--lr") + 1] == "0.002"


def test_table_3_searches_a_grid_for_each_task_and_for_squad(asked, glue, checkpoint):
    only, models = "batch=16,epochs=3,warmup=0.06", f"a={checkpoint},b={checkpoint}"
    given = {"glue": str(glue), "models": models, "tasks": "RTE", "squad": str(glue)}
    settings = asked(only=only, finetune_flags="--bf16", gpus=4, **given)
    keys = [f"lr{rate}-b16-e3-w0.06" for rate in ("2e-5", "3e-5", "4e-5", "5e-5")]
    files = ["best.json", *(f"best/seed-{seed}/result.json" for seed in (2, 3, 4, 5))]
    places = [f"table3/{name}/{task}" for name in "ab" for task in ("RTE", "squad2")]
    assert needed(settings, "table3") == [f"{place}/{file}" for place in places for file in files]
    end = "--lr 3e-5 --batch-size 16 --max-epoch 3 --warmup-ratio 0.06 --seed 1 --gpus"
    for task, gpus in (("RTE", 1), ("squad2", 4)):  # GLUE trains on one
        expected = [f"table3/a/{task}/{key}/seed-1/result.json" for key in keys]
        assert names(settings, plan.trials(settings, f"table3/a/{task}")) == expected
        command = plan.finetune_command(settings, "s", "table3/a", task, keys[1], "1")
        assert " ".join(command).endswith(f"{end} {gpus} --bf16")
        assert plan.finetune_inputs(settings, "table3/a", task, keys[1]) == {}
        best = plan.finetune_inputs(settings, "table3/a", task, "best")
        assert names(settings, best.values()) == [f"table3/a/{task}/best.flags"]
    assert {point.epochs for point in plan.grid(asked(max_epoch=1), "squad2")} == {"1"}


def test_table_1_with_models_and_without(asked, sets, data, checkpoint):
    settings = asked(moleculenet=sets, models=f"exlm={checkpoint}", finetune_seeds=1, max_epoch=2)
    places = [f"table1/{m}/{d}" for m in ("exlm", "untrained", "forest") for d in ("bace", "bbbp")]
    assert needed(settings, "table1") == [f"{place}/table8/seed-1/result.json" for place in places]
    command = plan.finetune_command(settings, "s", "table1/untrained", "bace", "table8", "1")
    assert " ".join(command).endswith("table8/seed-1 --scratch --max-epoch 2 --seed 1 --cpu")
    command = plan.finetune_command(settings, "s", "table1/forest", "bace", "table8", "1")
    assert command[:2] == ["python", "s/baseline_moleculenet.py"]
    assert plan.finetune_inputs(settings, "table1/forest", "bace", "table8") == {}
    settings = asked(moleculenet=sets, smiles=str(data))  # is pre-trained first
    for model in ("exlm-smiles", "untrained"):
        found = plan.finetune_inputs(settings, f"table1/{model}", "bace", "table8")
        assert names(settings, found.values()) == ["study/exlm-smiles/lr-default/seed-1/train.json"]


@pytest.mark.parametrize(
    ("target", "given", "named"),
    [
        ("table2", {"size": "small"}, "data=FOLDER"),
        ("table3", {}, "glue=FOLDER .* or squad=FOLDER"),
        ("table3", {"glue": "glue-bin/MNLI-bin"}, "TASK-bin"),
        ("table3", {"glue": "glue-bin", "tasks": "RTE"}, "data=FOLDER"),
        ("table1", {}, "moleculenet=SET=FOLDER"),
        ("table1", {"moleculenet": "bace=glue-bin"}, "glue-bin has no molecules.json"),
        ("table1", {"moleculenet": "bace=sets"}, "smiles=FOLDER"),
        ("table2", {"glue": "sets", "data": "data-bin"}, "glue=sets has no MNLI-bin"),
        ("table2", {"glue": "glue-bin", "data": "sets"}, "sets.dict.txt .*prepare_glue.py --data sets"),
        ("figure4", {"only": "k=3"}, "3.* figure4.*1, 2, 4, 8"),
    ],
)
def test_what_is_refused(asked, tmp_path, glue, monkeypatch, target, given, named):
    monkeypatch.chdir(tmp_path)
    Path("sets").mkdir()
    Path("sets/molecules.json").write_text("{}")
    Path("sets/dict.txt").write_text("other 1\n")
    with pytest.raises(ValueError, match=named):
        plan.files_of(asked(**given), target)
