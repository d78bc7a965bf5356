"""Fine-tunes a pre-trained model on a GLUE task, and scores the best epoch's saved predictions.

    bash scripts/finetune_glue.sh RTE checkpoints/exlm/checkpoint_best.pt glue-bin runs/rte \\
        --lr 3e-5 --batch-size 16 --max-epoch 10 --warmup-proportion 0.06 --seed 1

Architecture and sizes are the checkpoint's. Written are SAVE/train.log, SAVE/predictions/SPLIT.tsv (the
prediction of each row), SAVE/result.json (scores of the whole development sets, from those files) and with
--test SAVE/submission/, the files that gluebenchmark.com takes. An interrupted fine-tuning goes on where it
stood; a finished one is not done again. Checkpoints are removed at the end unless --keep-checkpoint.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import shlex
import sys
from pathlib import Path

from recipes.glue.files import GlueError
from recipes.glue.grids import FLAGS, GRIDS, Point, points_of
from recipes.glue.predictions import predict, save, scores_of, write_submission
from recipes.glue.tasks import Task, task_named
from recipes.glue.training import (
    check_data,
    data_fingerprint,
    file_state,
    read_start,
    rows_cut,
    sentences_in,
    training_flags,
)
from recipes.study.command_line import exit_status
from recipes.study.folder import FolderError, check_settings, locked, write_json

RESULT = "result.json"
OWN = ("--save-dir", "--restore-file", "--finetune-from-model")  # of fairseq-train's flags


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="finetune_glue.sh",
        usage="%(prog)s TASK CHECKPOINT DATA SAVE [options] [fairseq-train's flags]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Environment: EXLM_PYTHON, the Python to train with; CUDA_VISIBLE_DEVICES.",
        allow_abbrev=False,
    )
    add = result.add_argument
    add("task", metavar="TASK", help="CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI or RTE")
    add("checkpoint", type=Path, metavar="CHECKPOINT", help="of the pre-training")
    add("data", type=Path, metavar="DATA", help="what prepare_glue.py made: the folder with TASK-bin")
    add("save", type=Path, metavar="SAVE", help="folder to write to")
    add("--recipe", choices=GRIDS, default="table11", help="where the hyper-parameters below are from")
    for flag in FLAGS:
        what = "of an update, in as many steps as --update-freq says; " if flag == "--batch-size" else ""
        add(flag, metavar="N", help=f"{what}default: the recipe's, the first value of its grid")
    add("--seed", type=int, default=1, metavar="N", help="default: 1")
    add("--init-from", type=Path, metavar="FILE", help="a fine-tuned checkpoint (of MNLI) to start from")
    add("--test", action="store_true", help="predict the test sets too, for gluebenchmark.com")
    add("--keep-checkpoint", action="store_true", help="keep SAVE/checkpoint_best.pt")
    add("--cpu", action="store_true", help="train on the CPU (default: a GPU if there is one)")
    add("--print", action="store_true", help="show fairseq-train's command instead of running it")
    return result


def point_of(args, task: Task) -> Point:
    given = {name: getattr(args, flag[2:].replace("-", "_")) for flag, name in FLAGS.items()}
    point, *_ = points_of(task, args.recipe, {name: value for name, value in given.items() if value})
    return point


def flags_of(args, task: Task, extra: list[str]) -> list[str]:
    """The flags of fairseq-train.

    Raises:
        ValueError: for what cannot be trained; nothing is written then.
    """
    if taken := [word for word in extra if word.split("=")[0] in OWN]:
        raise GlueError(f"{taken[0]} is set by this script; see --help")
    pretrained = read_start(args.checkpoint, args.init_from)
    data, start = args.data / f"{task.name}-bin", args.init_from or args.checkpoint
    check_data(pretrained, data)
    point = point_of(args, task)
    return training_flags(task, pretrained, start, data, args.save, point, args.seed, args.cpu, tuple(extra))


def settings_of(args, task: Task, extra: list[str]) -> dict:
    """What may not differ where a fine-tuning goes on, or was finished before."""
    return {
        "task": task.name,
        "checkpoint": file_state(args.checkpoint),
        "data": data_fingerprint(args.data / f"{task.name}-bin"),
        "init_from": file_state(args.init_from) if args.init_from else None,
        "point": vars(point_of(args, task)),
        "seed": args.seed,
        "flags": extra,
    }


def check_save(args, settings: dict) -> None:
    """Raises FolderError where SAVE holds another run, or a finished one that lacks what is asked for."""
    recorded, done = (args.save / "settings.json").exists(), (args.save / RESULT).exists()
    if not recorded and not done and any(args.save.glob("*.pt")):
        raise FolderError(f"{args.save} holds checkpoints of another run: choose another SAVE")
    if recorded or not done:
        check_settings(args.save, settings)
    lacking = []
    if args.test and not any((args.save / "submission").glob("*.tsv")):
        lacking.append("--test")
    if args.keep_checkpoint and not (args.save / "checkpoint_best.pt").exists():
        lacking.append("--keep-checkpoint")
    if done and lacking:
        raise FolderError(
            f"{args.save} was finished without {' and '.join(lacking)}, and its checkpoints are removed: "
            "choose another SAVE"
        )


FORM = ("%(asctime)s | %(levelname)s | %(name)s | %(message)s", "%Y-%m-%d %H:%M:%S")


def log_as_fairseq() -> None:
    logging.basicConfig(format=FORM[0], datefmt=FORM[1], level="INFO", stream=sys.stdout, force=True)


@contextlib.contextmanager
def logging_to(path: Path):
    """The log goes to a file too; a run that goes on adds to it. (fairseq's --log-file has no dates.)"""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter(*FORM))
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def train(flags: list[str]) -> None:
    """fairseq-train in this process."""
    from fairseq_cli.train import cli_main

    sys.argv = ["fairseq-train", *flags]
    cli_main()


def finetune(args, task: Task, flags: list[str], fingerprint: str) -> dict:
    data, best = args.data / f"{task.name}-bin", args.save / "checkpoint_best.pt"
    with logging_to(args.save / "train.log"):
        train(flags)
    if not best.is_file():
        raise GlueError(f"the training left no {best}: see {args.save / 'train.log'}")
    splits = [s for s in task.splits if (data / "input0" / f"{s}.idx").is_file() and s != "train"]
    if not args.test:
        splits = [split for split in splits if not split.startswith("test")]
    elif not any(split.startswith("test") for split in splits):
        raise GlueError(f"--test: {data} has no test set")
    folder = args.save / "predictions"
    folder.mkdir(exist_ok=True)
    scores = {}
    for split, predictions in predict(best, data, task, splits, args.cpu).items():
        save(folder / f"{split}.tsv", predictions)
        if predictions.targets is not None:
            scores[split] = scores_of(folder / f"{split}.tsv", task)
        else:
            write_submission(args.save / "submission", task, split, predictions)
    return {
        "task": task.name,
        "metric": task.metric,
        "scores": scores,
        "rows": {s: sum(1 for _ in (folder / f"{s}.tsv").open()) - 1 for s in scores},
        "cut": {split: rows_cut(data, split, flags) for split in ("train", *splits)},
        "data": {"train_rows": sentences_in(data, "train"), "fingerprint": fingerprint},
        "point": vars(point_of(args, task)),
        "seed": args.seed,
        "checkpoint": str(args.checkpoint),
        "init_from": str(args.init_from) if args.init_from else None,
        "command": ["fairseq-train", *flags],
    }


def shown(result: dict) -> str:
    lines = []
    for split, scores in result["scores"].items():
        text = ", ".join(f"{name} {100 * value:.2f}" for name, value in scores.items())
        cut, limit = result.get("cut", {}).get(split, (0, 0))
        shortened = f", {cut:,} of them cut to {limit} tokens" if cut else ""
        lines.append(f"{result['task']} {split} ({result['rows'][split]:,} rows{shortened}): {text}")
    return "\n".join(lines)


def run(args: argparse.Namespace, extra: list[str]) -> int:
    """The exit status."""
    task = task_named(args.task)
    import torch

    args.cpu = args.cpu or not torch.cuda.is_available()
    flags = flags_of(args, task, extra)
    if args.print:
        print(shlex.join([sys.executable, "-m", "fairseq_cli.train", *flags]))
        return 0
    try:
        args.save.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"cannot make {args.save} ({error.strerror}): choose another SAVE") from error
    with locked(args.save):
        settings = settings_of(args, task, extra)
        check_save(args, settings)
        done = args.save / RESULT
        if done.exists():
            print(f"{done} is there: finished before\n{shown(json.loads(done.read_text()))}")
            return 0
        log_as_fairseq()
        result = finetune(args, task, flags, settings["data"])
        write_json(done, result)  # before the checkpoints go: whenever this ends, nothing is lost
        for path in args.save.glob("checkpoint*.pt"):
            if path.name != "checkpoint_best.pt" or not args.keep_checkpoint:
                path.unlink()
    print(shown(result))
    return 0


def main(argv=None) -> int:
    args, extra = parser().parse_known_args(argv)
    return exit_status(lambda: run(args, extra))


if __name__ == "__main__":
    sys.exit(main())
