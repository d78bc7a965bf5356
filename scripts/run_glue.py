"""Table 3's GLUE for one pre-trained model: the grid search of table 11, then the seeds of the best point.

    python scripts/run_glue.py checkpoints/exlm/checkpoint_best.pt --data glue-bin --output runs/exlm
    python scripts/report.py ExLM=runs/exlm MLM=runs/mlm

Each task's grid is run with the first seed; the point that scores best on the development set is then run
with the other seeds, and counts with the median of all. The same command goes on where an interrupted one
stopped, and skips what is finished. docs/glue.md has the rest.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from recipes.glue.grids import FLAGS, GRIDS, Point, points_of
from recipes.glue.sweep import FROM_MNLI, Sweep, SweepGrid, best_point, check_results, rows_in, runs_of
from recipes.glue.tasks import TASKS, task_named
from recipes.glue.training import check_data, file_state, read_start
from recipes.study import folder
from recipes.study.command_line import add_running_arguments, exit_status, filters, whole_numbers
from recipes.study.folder import FolderError
from recipes.study.runner import say


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = result.add_argument
    add("checkpoint", type=Path, metavar="CHECKPOINT", help="of the pre-training")
    add("--data", type=Path, required=True, metavar="DIR", help="what prepare_glue.py made")
    add("--output", type=Path, required=True, metavar="DIR", help="folder for this model's fine-tunings")
    add("--tasks", nargs="+", metavar="TASK", help=f"of {', '.join(TASKS)} (default: those in --data)")
    add("--grid", choices=GRIDS, default="table11", help="default: table11; table6 is a single point")
    add(
        "--only",
        type=filters,
        default={},
        metavar="lr=2e-5,batch=16",
        help=f"fix {', '.join(FLAGS.values())}",
    )
    add("--seeds", type=whole_numbers, default=(1, 2, 3, 4, 5), metavar="1,2,3", help="default: 1,2,3,4,5")
    add("--init-from", type=Path, metavar="FILE", help=f"a checkpoint of MNLI, for {', '.join(FROM_MNLI)}")
    add_running_arguments(result, "fine-tuning")
    return result


def tasks_of(args) -> list[str]:
    if args.tasks:
        return [task_named(name).name for name in args.tasks]
    found = [name for name in TASKS if (args.data / f"{name}-bin").is_dir()]
    if not found:
        raise FolderError(f"--data {args.data} has no TASK-bin: give the folder that prepare_glue.py made")
    return found


def settings_of(args, sweep: Sweep) -> dict:
    """What may not differ within an output folder."""

    return {
        "checkpoint": file_state(sweep.checkpoint),
        "data": str(sweep.data),
        "init_from": file_state(sweep.init_from) if sweep.init_from else None,
        "grid": args.grid,
        "only": args.only,
        "flags": args.flags,
    }


def check(args, sweep: Sweep, tasks: list[str]) -> None:
    """Raises ValueError or FolderError for what cannot be fine-tuned, before anything is."""
    if args.jobs < 1 or (args.gpus and args.jobs > 1):
        raise ValueError(f"--jobs {args.jobs}: give 1 or more; with --gpus, each GPU has one run at a time")
    if ":" in str(sweep.output):
        raise FolderError(f"--output {sweep.output}: fairseq takes a folder without ':' in its name")
    pretrained = read_start(sweep.checkpoint, sweep.init_from)
    for task in tasks:
        rows_in(sweep.data, task)
        check_data(pretrained, sweep.data / f"{task}-bin")
        check_results(sweep, task)


def execute(sweep: Sweep, points: dict[str, list[Point]], seeds: list[int], devices: list) -> list:
    """The grid with the first seed, then each task's best point with the others; returns the failures."""
    say(f"The grid: {sum(map(len, points.values()))} points of {', '.join(points)}, seed {seeds[0]}")
    grid = SweepGrid(sweep, runs_of(points, seeds[:1]), devices)
    grid.execute()
    best = {}
    for task, found in points.items():
        point = best_point(sweep, task, found, seeds)
        if point is not None and not any(run.task == task for run, _, _ in grid.failures):
            say(f"{task}: best with {point}")
            best[task] = [point]
    if len(seeds) > 1 and best:
        say(f"Seeds {', '.join(map(str, seeds[1:]))} of the best points")
        more = SweepGrid(sweep, runs_of(best, seeds[1:]), devices)
        more.execute()
        grid.failures += more.failures
    return grid.failures


def run(args) -> int:
    tasks = tasks_of(args)
    points = {task: points_of(TASKS[task], args.grid, args.only) for task in tasks}
    init_from = args.init_from.resolve() if args.init_from else None
    paths = (args.output.resolve(), args.checkpoint.resolve(), args.data.resolve(), init_from)
    sweep = Sweep(*paths, tuple(shlex.split(args.flags)))
    check(args, sweep, tasks)
    seeds = list(args.seeds)
    devices = [str(gpu) for gpu in args.gpus] if args.gpus else [None] * args.jobs
    if args.dry_run:
        grid = SweepGrid(sweep, runs_of(points, seeds[:1]), devices)
        for one in grid.runs:
            [step] = grid.steps(one)
            say(f"# {one.key}{' (finished)' if step.done else ''}")
            say(shlex.join(grid.command(one, step, devices[0])))
        return 0
    folder.make(sweep.output)
    with folder.locked(sweep.output):
        folder.prepare(sweep.output, settings_of(args, sweep))
        folder.write_json(sweep.output / "seeds.json", seeds)
        failures = execute(sweep, points, seeds, devices)
    for failed, step, text in failures:
        say(f"\n{failed.key} failed; the end of {step.log}:\n{text}")
    if failures:
        say(f"\n{len(failures)} failed; the same command tries them again")
    say(f"Table: {Path(sys.executable).name} scripts/report.py {shlex.quote(str(args.output))}")
    return 1 if failures else 0


def main(argv=None) -> int:
    args = parser().parse_args(argv)
    return exit_status(lambda: run(args))


if __name__ == "__main__":
    sys.exit(main())
