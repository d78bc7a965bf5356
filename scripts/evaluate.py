#!/usr/bin/env python
"""Predictions of a fine-tuned model, and their scores.

    python scripts/evaluate.py runs/squad/checkpoint_best.pt squad-bin --output answers --threshold -1.5
    python scripts/evaluate.py runs/bbbp/checkpoint_best.pt data-bin/bbbp --output bbbp --split valid test

writes, last, OUTPUT/result.json, and before

    GLUE       predictions/SPLIT.tsv; of a split without labels submission/TASK.tsv, for gluebenchmark.com
    SQuAD      predictions.json (question id -> answer, "" for none)
    molecules  SPLIT.predictions.csv: line, SMILES, and for each property the prediction, a probability or a
               value, and the label

Windows, lengths and metrics are those of the training.
"""

from dataclasses import fields
from pathlib import Path

from fairseq import tasks
from lib.command_line import SEVERAL, UserError, argument_parser, positive, script
from lib.files import RESULT
from lib.recipes import OF_TASK, benchmark
from lib.run.folder import is_held
from lib.run.launch import LAST
from omegaconf import OmegaConf

from fs_plugins import checkpoint
from fs_plugins.files import check_absent, naming_errors
from fs_plugins.finetuning.scored import predict


def load_finetuned(path: Path, device: str | None, data: Path, **settings):
    """Returns the model of a fine-tuning, in full precision, its task and its architecture. The task has
    ``settings`` instead of the checkpoint's. Raises OSError or ValueError if it is no checkpoint of a
    fine-tuning, or does not fit the data."""
    loaded = checkpoint.load(path, data, device)
    if loaded.task not in OF_TASK:
        raise UserError(f"{path} is of --task {loaded.task}: fine-tune it with scripts/finetune_*.sh")
    known = {field.name for field in fields(tasks.TASK_DATACLASS_REGISTRY[loaded.task])}
    if unknown := settings.keys() - known:
        raise UserError(f"--task {loaded.task} has no {min(unknown)}: leave it out")
    settings = {"seed": 1, **settings, "data": str(data)}
    with naming_errors(data):
        task = tasks.setup_task(OmegaConf.merge(loaded.cfg.task, settings), from_checkpoint=True)
        task.prepare_for(loaded)
    return loaded.model.float(), task, loaded.arch


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", type=Path, help="of scripts/finetune_*.sh")
    add("data", type=Path, help="what it was fine-tuned on; of GLUE TASK-bin")
    add("--output", type=Path, required=True, help="folder to write into")
    add("--overwrite", action="store_true", help="replace an existing result")
    add("--split", **SEVERAL, metavar="NAME", help="default: valid")
    add("--threshold", type=float, metavar="X", help="SQuAD: no answer above these null odds (training's)")
    add("--batch-size", type=positive, default=64, metavar="N", help="rows at a time (default: 64)")
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    args = parser.parse_args(argv)
    args.split = args.split or ["valid"]
    check_absent(args.output / RESULT, args.overwrite)
    is_finished = (args.output / RESULT).exists() or not (args.output / LAST).exists()
    if not is_finished and not is_held(args.output):
        raise UserError(
            f"{args.output} has an unfinished training: rerun its command, or give another --output"
        )
    if not args.data.is_dir():
        raise UserError(f"{args.data} is no folder: prepare the data first, by scripts/prepare_*.py")
    threshold = {} if args.threshold is None else {"null_threshold": args.threshold}
    model, task, arch = load_finetuned(args.checkpoint, args.device, args.data, **threshold)
    kind = OF_TASK[task.cfg._name]
    if kind == "squad" and len(args.split) > 1:
        raise UserError("--split: give one split of SQuAD at a time")
    args.output.mkdir(parents=True, exist_ok=True)  # fails before any work if it cannot be written
    outputs = {}
    for split in args.split:  # faults of a split are found before any is predicted
        with naming_errors(args.data / split):
            task.load_dataset(split)
    for split in args.split:
        with naming_errors(args.data / split):
            outputs[split] = predict(task, model, split, args.batch_size)
    print(benchmark(kind).write(task, outputs, args, arch))
