"""The results that each target needs, and the commands that make them (test_workflow.py runs the engine)."""

from dataclasses import replace
from pathlib import Path

import pytest
from lib.workflow import plan

from tests.support.builders import write_file

EXLM = "exlm-k4-p0.15"


def needed(settings, target) -> list[str]:
    """In the output."""
    return [str(path) for path in plan.Jobs(settings, target).files]


def commands(settings, target) -> dict[str, str]:
    """Of fine-tunings, by their folders."""
    tunings = plan.Jobs(settings, target).tunings
    return {
        str(folder): " ".join(plan.finetune_command(settings, "s", one)) for folder, one in tunings.items()
    }


def test_the_quality_of_a_run_is_the_probe_or_fine_tuning(asked, data, glue):
    place = f"study/{EXLM}/lr-default/seed-1"
    assert needed(asked(only=f"name={EXLM}"), "table2") == [f"{place}/train.json", f"{place}/probe.json"]
    every = [Path(name).name for name in needed(asked(), "study") if f"{EXLM}/" in name]  # each once
    assert sorted(every) == ["entropy.json", "index.html", "probe.json", "train.json"]
    found = asked(only=f"name={EXLM}", data=str(data), glue=str(glue), finetune_seeds="1,2")
    folders = (f"{task}/table6/seed-{s}" for task in ("MNLI", "QNLI", "QQP", "RTE") for s in (1, 2))
    tuned = [f"{place}/glue/{folder}/result.json" for folder in folders]
    assert needed(found, "table2") == [f"{place}/train.json", *tuned]
    command = commands(found, "table2")[f"{place}/glue/RTE/table6/seed-2"]
    assert command.startswith(
        f"bash s/finetune_glue.sh RTE {found.output}/{place}/checkpoint_last.pt {glue} "
    )
    point = "--lr 5e-5 --batch-size 32 --max-epoch 3 --warmup-ratio 0.06 --seed 2 --cpu --drop-checkpoints"
    assert command.endswith(f"/{place}/glue/RTE/table6/seed-2 {point}")


def test_learning_rates_are_chosen_by_the_first_seed_and_reported_on_the_others(asked):
    settings = asked(rates="1e-3,2e-3", seeds="1,2,5", only="p=0.15,k=4")
    reported = [name for name in needed(settings, "table4") if f"/{EXLM}/" in name]
    folder = f"study/{EXLM}/lr-best/seed"
    assert reported == [f"{folder}-{seed}/{name}.json" for seed in (2, 5) for name in ("train", "probe")]
    trials = plan.Jobs(settings, "table4").trials
    assert trials[Path("study", EXLM)] == [
        Path(f"study/{EXLM}/lr-{lr}/seed-1/probe.json") for lr in ("0.001", "0.002")
    ]
    assert all("lr-default/seed-" in name for name in needed(asked(seeds="1,2"), "table4"))


def test_the_whole_paper(asked, data, glue, tmp_path):
    """Each pre-training once, then the grids of each task and of SQuAD, and the sets of MoleculeNet."""
    write_file(tmp_path / "bace/molecules.json", "{}")
    folders = {"data": str(data), "smiles": str(data), "glue": str(glue), "squad": str(data)}
    folders["moleculenet"] = {"bace": str(tmp_path / "bace")}
    settings = asked(**{"size": "paper", **folders, "finetune_seeds": "1,2", "gpus": 2})
    jobs = plan.Jobs(settings, "reproduce")
    assert len(jobs.runs) == 30 + 3 + 2  # of the study, of table 3, of table 1
    assert {one.trained.parent for one in jobs.tunings.values() if one.trained} <= {*jobs.runs}
    shown = [*commands(settings, "reproduce").values()]
    text = "\n".join(shown)
    study = 24 * 4 * 2  # of figure 8, tables 2, 4 and 13; four tasks
    for words, count in (
        ("s/finetune_squad.sh", 3 * (32 + 1)),
        ("s/finetune_glue.sh", 3 * (304 + 8) + study),
        ("s/finetune_moleculenet.sh bace", 3 * 2),
        ("/untrained/bace/table8/seed-2 --seed 2 --gpus 1 --scratch", 1),
        ("--lr 3e-5 --batch-size 16 --max-epoch 3 --warmup-ratio 0.06 --seed 1 --gpus 1", 3 * 4),  # of GLUE
        ("--lr 3e-5 --batch-size 16 --max-epoch 3 --warmup-ratio 0.06 --seed 1 --gpus 2", 3),
        ("s/baseline_moleculenet.py", 2),
    ):
        assert text.count(words) == count, words
    start = f"{settings.output}/study/exlm-text/lr-default/seed-1/checkpoint_last.pt"
    best = f"{settings.output}/table3/exlm-text/squad2/best/seed-2"
    assert f"bash s/finetune_squad.sh {start} {data} {best} --seed 2 --gpus 2" in shown
    assert plan.gpus_of(settings, jobs.tunings[Path("table1/forest/bace/table8/seed-1")]) == 0


@pytest.mark.parametrize(
    ("given", "name", "words"),
    [
        ({}, EXLM, "smoke data --k 4 --p 0.15 --seed 1 --cpu"),
        (
            {"size": "paper", "gpus": 8},
            "repeated-mlm-k1-p0.15-x2",
            "paper data --k 1 --p 0.15 --seed 1 --updates 100000 --gpus 8",
        ),
        (
            {"updates": 30},
            "repeated-mlm-k1-p0.15-x2",
            "smoke data --k 1 --p 0.15 --seed 1 --updates 60 --cpu",
        ),
        ({"size": "paper"}, "exlm-text", "base data --k 4 --p 0.15 --seed 1 --cpu"),
        ({"tokens_per_sample": 64}, "mlm-text", "smoke data --p 0.15 --seed 1 --tokens-per-sample 64 --cpu"),
        ({"size": "paper"}, "exlm-smiles", "paper smiles --k 2 --p 0.15 --seed 1 --cpu"),
    ],
)
def test_commands_of_pre_trainings(asked, data, given, name, words):
    settings = asked(**{"gpus": 0, **given}, data=str(data), smiles=str(data.parent))
    run = next(run for one in settings.targets.values() for run in one.runs if run.name == name)
    command = plan.pretrain_command(settings, "s", run)
    script = "s/pretrain_smiles.sh" if "smiles" in name else "s/pretrain_text.sh"
    assert command[:3] == ["bash", script, run.model]
    assert command.pop(5) == f"{settings.output}/{run.folder}"
    size, place, options = words.split(maxsplit=2)
    assert command[3:] == [size, str(data if place == "data" else data.parent), *options.split()]
    tried = plan.pretrain_command(settings, "s", replace(run, lr="0.002"))
    assert tried[tried.index("--lr") + 1] == "0.002"


@pytest.mark.parametrize(
    ("target", "given", "named"),
    [
        ("table2", {"size": "small"}, "data=FOLDER"),
        ("table3", {"glue": "glue-bin/MNLI-bin"}, "glue=FOLDER .* or squad=FOLDER"),
        ("table1", {}, "moleculenet=SET=FOLDER"),
        ("table1", {"moleculenet": "bace=sets"}, "smiles=FOLDER"),
        (
            "table1",
            {"moleculenet": "bace=sets", "smiles": "data-bin"},
            "sets/dict.txt .* dictionary of data-bin",
        ),
        ("table2", {"glue": "glue-bin", "data": "sets"}, "sets.dict.txt .* with the dictionary of sets"),
        ("figure4", {"only": "k=3"}, "3.* no run of figure4"),
    ],
)
def test_what_is_refused(asked, tmp_path, glue, monkeypatch, target, given, named):
    monkeypatch.chdir(tmp_path)
    Path("sets").mkdir()
    Path("sets/molecules.json").write_text("{}")
    Path("sets/dict.txt").write_text("other 1\n")
    with pytest.raises(ValueError, match=named):
        plan.Jobs(asked(**given), target)
