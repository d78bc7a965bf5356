"""The results that each target needs, and the jobs that make them (test_workflow.py runs the engine)."""

from pathlib import Path

import pytest
from lib.command_line import UserError
from lib.workflow import plan
from lib.workflow.runs import Run, runs, targets

from tests.support.builders import write_file

EXLM = "exlm-k4-p0.15"
POINT = "--lr {lr} --batch-size {batch} --max-epoch 3 --warmup-ratio 0.06"


def text(job: plan.Job) -> str:
    return " ".join(map(str, job.words))


def needed(settings, target) -> list[str]:
    """Below the output."""
    return [str(path.relative_to(settings.output)) for path in plan.files(settings, target)]


def every(settings, target) -> dict[str, plan.Job]:
    """The jobs of a target and all that come before them, by their results below the output."""
    rules, found = {result: rule for rule, result in plan.RULES.items()}, {}
    waiting = plan.files(settings, target)
    while waiting:
        path = waiting.pop().relative_to(settings.output)
        if str(path) not in found and path.name in rules:
            found[str(path)] = plan.job(settings, rules[path.name], path.parent)
            waiting += found[str(path)].needs
    return found


def test_the_quality_of_a_run_is_the_probe_or_fine_tuning(asked, data, glue):
    place = f"study/{EXLM}/seed-1"
    names = [name for name in needed(asked(), "table2") if f"{EXLM}/" in name]
    assert names == [f"{place}/train.json", f"{place}/probe.json"]
    names = [name for name in needed(asked(), "study") if f"{EXLM}/" in name]  # each once
    assert len(names) == 4 and {f"{place}/entropy.json", f"{place}/example/index.html"} < {*names}
    found = asked(data=str(data), glue=str(glue), finetune_seeds="1,2")
    folders = (f"{task}/table6/seed-{s}" for task in ("MNLI", "QNLI", "QQP", "RTE") for s in (1, 2))
    tuned = [f"{place}/glue/{folder}/result.json" for folder in folders]
    names = [name for name in needed(found, "table2") if f"{EXLM}/" in name]
    assert names == [f"{place}/train.json", *tuned]
    job, run = every(found, "table2")[tuned[-1]], found.output / place
    options = f"--seed 2 --gpus 0 --drop-checkpoints {POINT.format(lr='5e-5', batch=32)}"
    words = f"RTE {run}/checkpoint_last.pt {glue} {run}/glue/RTE/table6/seed-2 {options}"
    assert text(job).endswith(f"bash scripts/finetune_glue.sh {words}")
    assert job.needs == [run / "train.json"]


def test_only_size_smoke_has_data_of_its_own(asked):
    folder = Path("study", EXLM, "seed-1")
    assert plan.job(asked(), "pretrain", folder).needs
    with pytest.raises(UserError, match="data=FOLDER"):
        plan.job(asked(size="small"), "pretrain", folder)


def test_the_whole_paper(asked, data, glue, tmp_path):
    """Each pre-training once, then the grids of each task and of SQuAD, and the sets of MoleculeNet."""
    write_file(tmp_path / "bace/molecules.json", "{}")
    folders = {"data": str(data), "smiles": str(data), "glue": str(glue), "squad": str(data)}
    folders["moleculenet"] = {"bace": str(tmp_path / "bace")}
    settings = asked(**{"size": "paper", **folders, "finetune_seeds": "1,2", "gpus": 2})
    jobs = every(settings, "reproduce")
    assert sum(name.endswith("train.json") for name in jobs) == 30 + 3 + 2  # of the study, tables 3 and 1
    shown = "\n".join(map(text, jobs.values()))
    study = 24 * 4 * 2  # of figure 8, tables 2, 4 and 13; four tasks
    point = POINT.format(lr="3e-5", batch=16)
    for words, count in (
        ("finetune_squad.sh", 3 * (32 + 1)),
        ("finetune_glue.sh", 3 * (304 + 8) + study),
        ("finetune_moleculenet.sh bace", 3 * 2),
        ("/untrained/bace/table8/seed-2 --seed 2 --gpus 1 --scratch", 1),
        (f"--seed 1 --gpus 1 --drop-checkpoints {point}", 3 * 4),  # of GLUE
        (f"--seed 1 --gpus 2 {point}", 3),
        ("scripts/baseline_moleculenet.py", 2),
    ):
        assert shown.count(words) == count, words
    start = f"{settings.output}/study/exlm-text/seed-1/checkpoint_last.pt"
    place = settings.output / "table3/exlm-text/squad2"
    best = jobs["table3/exlm-text/squad2/best/seed-2/result.json"]
    words = f"scripts/finetune_squad.sh {start} {data} {place}/best/seed-2 --seed 2 --gpus 2"
    assert (text(best), best.flags) == (f"bash {words}", f"$(cat {place}/best.flags)") and best.gpus == 2
    assert best.needs == [Path(start).with_name("train.json"), place / "best.json"]
    measures = {name: job.gpus for name, job in jobs.items() if name.endswith(("entropy.json", "probe.json"))}
    assert len(measures) > 10 and {*measures.values()} == {1}
    assert jobs["table1/forest/bace/table8/seed-1/result.json"].gpus == 0


PAPER, OWN = {"size": "paper"}, {"gpus": 8, "flags": "--dropout 0.1"}
LONGER = "--k 1 --p 0.15 --seed 1 --updates 100000 --gpus 8 --dropout 0.1"
PRETRAININGS = [
    (PAPER | OWN, "repeated-mlm-k1-p0.15-x2", "paper a/text", LONGER),
    ({"updates": 30}, "mlm-text", "smoke a/text", "--p 0.15 --seed 1 --updates 30 --gpus 0"),
    (PAPER | {"tokens_per_sample": 64}, "exlm-smiles", "paper a/smiles", "--k 2 --p 0.15 --seed 1 --gpus 0"),
    (PAPER, "exlm-text", "base a/text", "--k 4 --p 0.15 --seed 1 --gpus 0"),
]


@pytest.mark.parametrize(("given", "name", "what", "options"), PRETRAININGS)
def test_commands_of_pre_trainings(asked, given, name, what, options):
    settings, run = asked(**given, data="a/text", smiles="a/smiles"), runs()[name]
    folder, script = settings.output / run.folder, f"scripts/pretrain_{what.split('/')[1]}.sh"
    job = plan.pretrain(settings, run)
    assert text(job) == f"bash {script} {run.model} {what} {folder} {options}"
    assert job.gpus == settings.gpus and job.then.endswith(f" finish {folder}") and Run.at(run.folder) == run


def test_data_of_different_dictionaries(asked, tmp_path, glue):
    other = write_file(tmp_path / "sets/dict.txt", "other 1\n").parent
    with pytest.raises(ValueError, match="glue-bin/MNLI-bin.*/sets/dict.txt"):
        plan.check(asked(glue=str(glue), data=str(other)), "table2")


def test_runs_are_those_of_figure_4_and_table_4():
    """The cells of figure 4, whose numbers test_paper.py compares with the paper's."""
    for name in ("figure3", "figure4", "figure5", "figure8", "figure9"):
        found = targets()[name].runs
        assert [f"repeated-mlm-k{run.k}-p{run.p:g}" for run in found] == [run.name for run in found]
        assert {run.model for run in found} == {"repeated-mlm"} and len(found) == 14
    for name, ratios in (("table4", (0.15, 0.387)), ("figure12", (0.15, 0.387, 0.622, 0.789))):
        expected = {("repeated-mlm" if k == 1 else "exlm", k, p) for k in (1, 2, 4, 8) for p in ratios}
        found = [(run.model, run.k, run.p) for run in targets()[name].runs]
        assert set(found) == expected and len(found) == len(expected)
