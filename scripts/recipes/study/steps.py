"""The steps of a run, as commands: training, entropy, probe, fine-tuning; and what is kept of each."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from recipes import logs
from recipes.glue.grids import points_of
from recipes.glue.tasks import TASKS, Task
from recipes.glue.training import finetuning_command
from recipes.study.folder import ROOT, FolderError, read_json, write_json
from recipes.study.grids import ENTROPY, QUALITY, QUALITY_MNLI, Run

PROBE_RATIO = 0.15
GLUE_TASKS = ("MNLI", "QNLI", "QQP", "RTE")  # of GLUE's eight, those of this study
EVALUATED_SENTENCES = {"smoke": 500, "small": 2000, "paper": 5000}


@dataclass(frozen=True)
class Study:
    """What all runs of a folder share."""

    output: Path
    size: str
    data: Path
    glue: Path | None = None
    finetune_seeds: tuple[int, ...] = (1, 2, 3)
    extra_flags: tuple[str, ...] = ()
    updates: int | None = None  # of a run, in place of the size's

    def folder(self, run: Run) -> Path:
        return self.output / "runs" / run.key


@dataclass(frozen=True)
class Step:
    """One command of a run, done once its ``result`` is there."""

    name: str
    result: Path
    log: Path
    seed: int = 1

    @property
    def done(self) -> bool:
        return self.result.exists()


def steps_of(study: Study, run: Run, measures: set[str]) -> list[Step]:
    folder = study.folder(run)

    def step(name: str, log: str = "evaluation.log", seed: int = 1) -> Step:
        return Step(name, folder / f"{name}.json", folder / log, seed)

    steps = [step("train", "train.log", run.seed)]
    if ENTROPY in measures:
        steps.append(step("entropy"))
    if {QUALITY, QUALITY_MNLI} & measures and study.glue is None:
        steps.append(step("probe"))
    elif study.glue is not None:
        tasks = GLUE_TASKS if QUALITY in measures else ("MNLI",) if QUALITY_MNLI in measures else ()
        for task in tasks:
            steps += [step(f"glue-{task}-s{s}", f"glue-{task}-s{s}.log", s) for s in study.finetune_seeds]
    return steps


def command_of(study: Study, run: Run, step: Step, gpu: str | None) -> list[str]:
    """The command of a step."""
    folder = study.folder(run)
    python, checkpoint = sys.executable, str(folder / "checkpoint.pt")
    sentences = ["--max-sentences", str(EVALUATED_SENTENCES[study.size])]
    if step.name == "train":
        return [*training(study, run), *([] if gpu is not None else ["--cpu"]), *study.extra_flags]
    if step.name == "entropy":
        script = str(ROOT / "scripts" / "analyse_entropy.py")
        partial = str(step.result.with_name("entropy.partial.json"))
        asked = ["--data", str(study.data), "--split", "valid", "--mask-prob", f"{run.p:g}", *sentences]
        return [python, script, checkpoint, *asked, "--output", partial]
    if step.name == "probe":
        script = str(ROOT / "scripts" / "recipes" / "study" / "probe.py")
        partial = str(step.result.with_name("probe.partial.json"))
        return [
            *(python, script, checkpoint, "--data", str(study.data), "--mask-prob"),
            *(f"{share:g}" for share in probe_ratios(run)),
            *(*sentences, "--output", partial),
        ]
    return finetuning(study, run, step, gpu)


def probe_ratios(run: Run) -> list[float]:
    """15% for all; besides, the model's own p where its tokens are not repeated."""
    own = run.p if run.k == 1 or run.model != "repeated-mlm" else PROBE_RATIO
    return sorted({PROBE_RATIO, own})


def training(study: Study, run: Run) -> list[str]:
    """pretrain_text.sh with all of the run's settings."""
    command = [
        *("bash", str(ROOT / "scripts" / "pretrain_text.sh"), run.model, study.size, str(study.data)),
        *(str(study.folder(run) / "checkpoints"), "--k", str(run.k), "--p", f"{run.p:g}"),
        *("--seed", str(run.seed)),
    ]
    if run.schedule != 1 or study.updates is not None:
        updates = study.updates or flag(training(study, Run(run.model, run.k, run.p)), "--max-update")
        command += ["--updates", str(run.schedule * updates)]
    return command


def shown(command: list[str]) -> list[str]:
    """The whole fairseq-train command behind a command of pretrain_text.sh."""
    result = subprocess.run([*command, "--print"], capture_output=True, text=True)
    if result.returncode:
        raise FolderError(result.stderr.strip())
    return shlex.split(result.stdout)


def flag(command: list[str], name: str) -> int:
    """The last value of a flag of the fairseq-train command behind a command."""
    words = shown([*command, "--cpu"])
    return int(words[len(words) - words[::-1].index(name)])


def finetuning(study: Study, run: Run, step: Step, gpu: str | None) -> list[str]:
    """finetune_glue.sh with table 6 (appendix B.2), as run_glue.py --grid table6 has it."""
    task = glue_task(step)
    [point] = points_of(task, "table6")
    folder = study.folder(run)
    places = (folder / "checkpoint.pt", study.glue, folder / step.name)
    return finetuning_command(task.name, *places, point, step.seed, cpu=gpu is None)


def glue_task(step: Step) -> Task:
    """The task of a step named glue-TASK-sSEED."""
    return TASKS[step.name.split("-")[1]]


def check_glue(glue: Path, data: Path) -> None:
    """Raises FolderError unless GLUE was prepared with the pre-training's dictionary, and is whole."""
    for task in GLUE_TASKS:
        inputs = glue / f"{task}-bin" / "input0"
        dictionary = inputs / "dict.txt"
        if not dictionary.exists():
            raise FolderError(f"--glue {glue} has no {dictionary.relative_to(glue)}: see docs/experiments.md")
        if dictionary.read_bytes() != (data / "dict.txt").read_bytes():
            raise FolderError(
                f"{dictionary} is not the dictionary of {data}: prepare GLUE with "
                f"scripts/prepare_glue.py --data {data}"
            )
        for split in ("train", *TASKS[task].valid_splits):
            if not (inputs / f"{split}.idx").exists():
                raise FolderError(
                    f"--glue {glue} has no {split} set of {task}: prepare it with scripts/prepare_glue.py"
                )


def finish(study: Study, run: Run, step: Step) -> None:
    """Turns what a command left into the step's result.

    Raises:
        FolderError: if it left nothing of use.
    """
    folder = study.folder(run)
    if step.name in ("entropy", "probe"):
        partial = step.result.with_name(f"{step.name}.partial.json")
        if not partial.exists():
            raise FolderError(f"the command wrote no {partial.name}")
        partial.replace(step.result)
        return
    records = logs.read_log(step.log)
    if step.name == "train":
        last = max((r["update"] for r in records), default=0)
        if not (folder / "checkpoint.pt").exists():
            source = folder / "checkpoints" / "checkpoint_last.pt"
            if not source.exists():
                raise FolderError(f"the training left no {source}")
            drop_optimizer(source, folder / "checkpoint.pt")
        with (folder / "metrics.jsonl").open("w", encoding="utf-8") as metrics:
            import json

            metrics.writelines(json.dumps(record) + "\n" for record in records)
        corrupted = logs.corruption(records, run.k) if run.model == "repeated-mlm" else None
        result = {
            "updates": last,
            "training_seconds": logs.training_seconds(records),
            "corrupted": corrupted and {"proportion": corrupted[0], "tokens": corrupted[1]},
            "valid": next((r for r in reversed(records) if r["kind"] == "valid"), None),
        }
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    else:
        task = glue_task(step)
        found = read_json(folder / step.name / "result.json")
        if found is None or not set(task.valid_splits) <= found["scores"].keys():
            raise FolderError(f"the fine-tuning left no scores of {' and '.join(task.valid_splits)}")
        result = {"task": task.name, "seed": step.seed, "command": found["command"]}
        # in percent: of the epoch that was best on the first set, and of the last one
        result["best"] = {s: 100 * found["scores"][s][task.metric] for s in task.valid_splits}
        last = {r["kind"]: r["score"] for r in records if "score" in r}
        result["last"] = {s: last[s] for s in task.valid_splits if s in last}
        shutil.rmtree(folder / step.name, ignore_errors=True)
    write_json(step.result, result)


def drop_optimizer(source: Path, target: Path) -> None:
    """A copy of a checkpoint without what only going on with the training needs."""
    import torch
    from fairseq import checkpoint_utils

    import fs_plugins  # noqa: F401  (what torch.load may load)

    checkpoint = checkpoint_utils.load_checkpoint_to_cpu(str(source))
    checkpoint["last_optimizer_state"] = None
    partial = target.with_name(target.name + ".partial")
    torch.save(checkpoint, partial)
    partial.replace(target)
