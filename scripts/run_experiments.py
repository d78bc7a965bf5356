"""Runs the study of [MASK]: any of the paper's figures and tables, at three sizes.

    python scripts/run_experiments.py all --size smoke --output runs/smoke
    python scripts/run_experiments.py figure5 table2 --size small --data data-bin/wiki --output runs/small
    python scripts/report.py runs/smoke

The same command goes on where an interrupted one stopped; finished runs are skipped, and runs that several
figures and tables share are done once. docs/experiments.md has the sizes and what the output folder holds.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from recipes.study import folder, steps
from recipes.study.command_line import add_running_arguments, exit_status, filters, whole_numbers
from recipes.study.folder import ROOT, FolderError
from recipes.study.grids import EXPERIMENTS, expand
from recipes.study.runner import Grid, say

MODELS = {run.model for experiment in EXPERIMENTS.values() for run in experiment.runs}
SIZES = ("smoke", "small", "paper")
# what makes a run that run, or what the runner has an option for
NOT_IN_FLAGS = {"--max-update", "--total-num-update", "--mask-prob", "--ext-state-num", "--repeat-times"}
NOT_IN_FLAGS |= {"--task", "--criterion", "--arch", "--seed", "--save-dir", "--restore-file", "--user-dir"}


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = result.add_argument
    add("names", nargs="+", metavar="NAME", help=f"{', '.join(EXPERIMENTS)}, or all")
    add("--size", choices=SIZES, required=True, help="how large: configs/size/")
    add("--output", type=Path, required=True, metavar="DIR", help="folder for the runs of one size")
    add("--data", type=Path, metavar="DIR", help="of fairseq-preprocess (smoke: CPython's documentation)")
    add("--glue", type=Path, metavar="DIR", help="binarised GLUE, to fine-tune on; without it, the probe")
    add("--seeds", type=whole_numbers, default=(1,), metavar="1,2,3", help="of pre-training (default: 1)")
    add(
        "--finetune-seeds",
        type=whole_numbers,
        default=(1, 2, 3),
        metavar="1,2,3",
        help="of fine-tuning (default: 1,2,3)",
    )
    add("--only", type=filters, default={}, metavar="k=4,p=0.15", help="only the runs with these settings")
    add("--updates", type=int, metavar="N", help="of each pre-training (default: the size's; MLM++: twice)")
    add_running_arguments(result, "pre-training")
    return result


def quickstart_data(output: Path) -> Path:
    """The quickstart's corpus, binarised into the output folder, unless it is there."""
    data = output / "data-bin"
    if not (data / "complete").exists():
        say("Making the corpus from CPython's documentation")
        scripts = ROOT / "scripts"
        binarise = ["-m", "fairseq_cli.preprocess", "--only-source", "--workers", "1", "--destdir", str(data)]
        binarise += [
            "--trainpref",
            f"{output}/encoded/train.bpe",
            "--validpref",
            f"{output}/encoded/valid.bpe",
        ]
        for command in ([str(scripts / "quickstart_corpus.py"), str(output)], binarise):
            made = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT)
            if made.returncode:
                raise FolderError(f"the corpus could not be made:\n{(made.stdout + made.stderr)[-2000:]}")
        (data / "complete").touch()
    return data


def settings_of(args, data: Path) -> dict:
    """What may not differ within an output folder."""
    return {
        "size": args.size,
        "data": str(data),
        "dictionary": folder.fingerprint([data / "dict.txt"]),
        "tokens": sum((data / f"{split}.bin").stat().st_size for split in ("train", "valid")),
        "configs": folder.configs_fingerprint(args.size, MODELS),
        "flags": args.flags,
        "updates": args.updates,
        "glue": str(args.glue.resolve()) if args.glue else None,
    }


def show(grid: Grid) -> None:
    """The commands of a dry run."""
    for run in grid.runs:
        for step in steps.steps_of(grid.study, run, grid.runs[run]):
            say(f"# {run.key} {step.name}{' (finished)' if step.done else ''}")
            say(shlex.join(steps.command_of(grid.study, run, step, grid.devices[0])))


def run(args) -> int:
    """The exit status.

    Raises:
        ValueError, FolderError: for what cannot be run, before anything is.
    """
    runs = expand(args.names, args.seeds, args.only)
    if args.jobs < 1 or (args.gpus and args.jobs > 1):
        raise ValueError(f"--jobs {args.jobs}: give 1 or more; with --gpus, each GPU has one run at a time")
    if args.updates is not None and args.updates < 1:
        raise ValueError(f"--updates {args.updates}: give a whole number, 1 or more")
    if taken := NOT_IN_FLAGS & {word.partition("=")[0] for word in shlex.split(args.flags)}:
        raise ValueError(
            f"--flags: {', '.join(sorted(taken))} would hold for runs that differ in it; the runner sets it "
            "for each (see --updates, --only and --seeds)"
        )
    output = args.output.resolve()
    if ":" in str(output):
        raise FolderError(f"--output {output}: fairseq takes a folder without ':' in its name")
    if args.data is not None:
        folder.check_data(args.data)
    elif args.size != "smoke":
        raise FolderError(
            f"--size {args.size} needs --data, a folder made by fairseq-preprocess --only-source"
        )
    if args.glue is not None:
        if args.data is None:
            raise FolderError("--glue needs --data, the pre-training's data with the same dictionary")
        steps.check_glue(args.glue, args.data)
    data = args.data.resolve() if args.data else output / "data-bin"
    glue = args.glue.resolve() if args.glue else None
    flags = tuple(shlex.split(args.flags))
    study = steps.Study(output, args.size, data, glue, args.finetune_seeds, flags, args.updates)
    grid = Grid(study, runs, [str(gpu) for gpu in args.gpus] if args.gpus else [None] * args.jobs)
    if args.dry_run:
        show(grid)
        return 0
    folder.make(output)
    with folder.locked(output):
        there = folder.read_json(output / "settings.json")
        if there and there["size"] != args.size:
            raise FolderError(
                folder.OTHER_SETTINGS.format(output) + f"  size: there {there['size']!r}, asked {args.size!r}"
            )
        if args.data is None:
            quickstart_data(output)
        folder.prepare(output, settings_of(args, data))
        grid.execute()
    for failed, step, text in grid.failures:
        say(f"\n{failed.key}: {step.name} failed; the end of {step.log}:\n{text}")
    if grid.failures:
        say(f"\n{len(grid.failures)} failed: {', '.join(f'{r.key} ({s.name})' for r, s, _ in grid.failures)}")
        say("The same command tries them again.")
    say(f"Report: {Path(sys.executable).name} scripts/report.py {shlex.quote(str(args.output))}")
    return 1 if grid.failures else 0


def main(argv=None) -> int:
    args = parser().parse_args(argv)
    return exit_status(lambda: run(args))


if __name__ == "__main__":
    sys.exit(main())
