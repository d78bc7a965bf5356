"""Runs a training: the command of a shell script, filled in with what was asked for, in a folder of its own.

    python -m lib.run.pretraining text fairseq-train @data ... --save-dir @save ... @flags -- ARGUMENT...

and its like are called by the shell scripts that train: what the user gave is resolved to a Training, which
fills in the template before ``--``, and that is launched. @data, @save and @flags stand for what the
:class:`Training` has; fairseq-train gets each flag once, with the last value. A fine-tuning that succeeded is
evaluated. A training that its limit of time ended is not finished: the exit status is 75. The folder is
locked until the last command ends, and their output is appended to SAVE/train.log; of a training's, the
terminal gets the progress. ``--print`` shows the commands instead.
"""

import argparse
import contextlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lib.command_line import Flags, UserError, argument_parser, count, counted
from lib.files import MANIFEST, RESULT, ROOT, claim, digits, read_json, scores_of, sha256
from lib.run.logs import read_log
from lib.run.on_gpu import visible_gpus
from lib.run.progress import Progress
from lib.run.supervise import supervise

from fs_plugins.checkpoint import write_checkpoint
from fs_plugins.data.vocabulary import DICT_FILE, Vocabulary
from fs_plugins.fairseq_patches.ending import ENDED, TIME
from fs_plugins.files import copy, locked

LOG, IMPORTED, LAST, BEST_FILE = "train.log", "imported.pt", "checkpoint_last.pt", "checkpoint_best.pt"
UNFINISHED = 75  # exit status: to be called again
MOST_HASHED = 1 << 30  # bytes of each file that a run reads: a second
RESULTS = ("*.pt", "*.json")  # results of any training
PROGRAMS = {"fairseq-train": [sys.executable, "-m", "fairseq_cli.train"], "python": [sys.executable]}
EVALUATE = ["python", str(ROOT / "scripts" / "evaluate.py")]
# Flags that a resumed run may change, by how they begin: on what it runs, how often to look and to save, and
# the batch of a step (that of an update is a setting of its own).
FREE = re.compile(
    "--(amp|batch-size|bf16|checkpoint-act|continue-once|cpu|data-buffer|ddp|device|distributed|empty-cache"
    "|finetune-from|find-unused|fp16|keep|log|max-tokens|memory-efficient|no-epoch|no-progress|nprocs|num-workers|offload"
    "|reset|restore|save|stop-time-hours|tensorboard|update-freq|user-dir|validate|wandb)"
)
LESS_IS_BETTER = ("loss", "nll_loss", "ppl", "rmse", "mae", "scaled_rmse")
BEST, MAXIMIZE = "--best-checkpoint-metric", "--maximize-best-checkpoint-metric"
DISTRIBUTED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
OWN_PRECISION = {"--amp", "--memory-efficient-fp16", "--memory-efficient-bf16"}  # fairseq's, besides these
PRECISIONS = {
    "fp16": ("--fp16 --fp16-scale-tolerance 0.1 --fp16-scale-window 50", "half precision (default on GPUs)"),
    "bf16": ("--bf16", "bfloat16"),
    "fp32": ("", "single precision (default on the CPU)"),
}


@dataclass
class Training:
    """A training command with all settings resolved."""

    args: argparse.Namespace  # result of :func:`arguments`
    data: str  # DATA of fairseq-train
    flags: Flags  # flags of fairseq-train
    # options of evaluate.py; None: a pre-training, which is not evaluated
    evaluation: list[str] | None = None
    # settings that may not differ when the run is resumed, besides the flags
    settings: dict = field(default_factory=dict)
    # the dict.txt of the data, which is kept beside the checkpoints and may not differ either
    dictionary: Path | None = None
    # name -> files that are read, which may not differ either
    inputs: dict[str, list[Path]] = field(default_factory=dict)
    free: tuple[str, ...] = ()  # flags that such a training may change when it is resumed, besides FREE
    note: str = ""  # message to the user before it starts
    keep_best: bool = True  # checkpoint_best.pt stays after an evaluation, checkpoint_last.pt goes
    # metrics that validations log, to choose the best checkpoint by; here a pre-training's
    metrics: tuple[str, ...] = ("loss", "ppl", "accuracy", "states", "divergence")
    # a folder for transformers to start from, which becomes SAVE/IMPORTED while this trains
    imported: Path | None = None

    def train_command(self, template: list[str]) -> tuple[list[str], Flags]:
        """Returns the command of fairseq-train, and its flags: those of the template and then, as ``@flags``,
        those that were resolved, whose values are not parsed. Raises UserError for a metric that no
        validation logs: fairseq would find out at the first."""
        values = {"@data": self.data, "@save": str(self.args.save)}
        program, data, *words = (values.get(word, word) for word in template if word != "@flags")
        flags = Flags.of(words) | self.flags
        if metric := self.args.user.value(BEST):
            if metric not in self.metrics:
                raise UserError(f"{BEST} {metric}: choose one of {', '.join(self.metrics)}")
            flags.pop_all(MAXIMIZE)
            if metric not in LESS_IS_BETTER:
                flags.set(MAXIMIZE)
        if "--keep-last-epochs" in self.args.user:
            flags.pop_all(*{"--no-epoch-checkpoints", "--save-interval"} - self.args.user.keys())
        return [program, data, *flags.words()], flags

    def commands(self, train: list[str]) -> list[list[str]]:
        """Returns the commands to run one after the other."""
        if self.evaluation is None:
            return [train]
        save = self.args.save
        return [train, [*EVALUATE, str(save / BEST_FILE), self.data, "--output", str(save), *self.evaluation]]

    def all_settings(self, flags: Flags) -> dict:
        """Returns what may not differ when the run is resumed, the flags of fairseq-train among it."""
        flags = {name: " ".join(values) for name, values in sorted(flags.items())}
        kept = {name: v for name, v in flags.items() if not FREE.match(name) and name not in self.free}
        return self.settings | kept


def called(words: list[str]) -> tuple[list[str], list[str]]:
    """Returns the template that a shell script calls, and what its user gave it."""
    end = words.index("--")
    return words[:end], words[end + 1 :]


def arguments(
    script: str, about: str, names: dict[str, str], words: list[str], add_options: Callable, refused: dict
) -> argparse.Namespace:
    """Returns what a script that trains was called with: its own options; ``user``, further flags for
    fairseq-train; ``command``, its words.

    Args:
        script: its name.
        about: a sentence on what it does.
        names: its arguments -> what each is; ``save`` among them.
        add_options: adds those besides devices, precision and --print by the ``add_argument`` that it gets.
        refused: flags of fairseq-train that it does not take -> why. Given, they raise UserError.
    """
    parser = argument_parser(f"{about} The head of scripts/{script} says more.", prog=script)
    for name, text in names.items():
        of_type = Path if name in ("checkpoint", "save") else str  # DATA may be several, joined by ':'
        parser.add_argument(name, metavar=name.upper(), type=of_type, help=text)
    group = parser.add_mutually_exclusive_group()
    number = "GPUs to train on (default: as many of the visible ones as are of use)"
    group.add_argument("--gpus", type=count, metavar="N", help=number)
    group.add_argument("--cpu", dest="gpus", action="store_const", const=0, help="train on the CPU")
    group = parser.add_mutually_exclusive_group()
    for name, (_, text) in PRECISIONS.items():
        group.add_argument(f"--{name}", dest="precision", action="store_const", const=name, help=text)
    add_options(parser.add_argument)
    parser.add_argument("--print", action="store_true", help="show the commands; train nothing")
    args, others = parser.parse_known_args(words)
    args.user, args.command = Flags.of(others), [script, *words]
    for name in args.user.keys() & refused.keys():
        raise UserError(f"{name} {refused[name]}; see --help")
    return args


def devices(
    args: argparse.Namespace, environment: Mapping[str, str] = os.environ, one_gpu: bool = False
) -> tuple[int, Flags]:
    """Returns (processes that train together, flags) for the GPUs asked for, else the visible ones.

    Alone, a process starts one worker a GPU; with RANK and its like in the environment, as torchrun and the
    SLURM example of docs/data.md set them, it is itself one of WORLD_SIZE workers.

    Args:
        one_gpu: more than one are of no use to this training.
    """
    gpus = len(visible_gpus(environment)) if args.gpus is None else args.gpus
    if one_gpu:
        environment, gpus = {}, min(gpus, 1)
    flags = Flags() if gpus else Flags.of("--cpu --num-workers 0")
    default = "fp16" if gpus and not OWN_PRECISION & args.user.keys() else "fp32"
    flags |= Flags.of(PRECISIONS[args.precision or default][0])
    workers = max(gpus, 1)
    if environment.get("RANK") or environment.get("WORLD_SIZE"):
        rank, workers, host, port = (environment[name] for name in DISTRIBUTED)
        if (workers := int(workers)) > 1:
            flags |= Flags.of(f"--distributed-rank {rank} --distributed-no-spawn")
            flags |= Flags.of(f"--distributed-init-method tcp://{host}:{port}")
            device = f"--device-id {int(environment.get('LOCAL_RANK') or rank) % gpus}" if gpus else ""
            flags |= Flags.of(device or "--distributed-backend gloo --ddp-backend legacy_ddp")
    return workers, flags | Flags.of(f"--distributed-world-size {workers}")


def drop_schedule(flags: Flags, user: Flags) -> None:
    """Drops the warm-up and the length of configs/'s schedule if the user chose another, which may not take
    them."""
    if flags.value("--lr-scheduler") != "polynomial_decay":
        flags.pop_all(*{"--warmup-updates", "--total-num-update"} - user.keys())


def choose_optimizer(training: Training) -> None:
    """On a GPU puts PyTorch's fused AdamW in the place of fairseq's ``adam``, which takes ten operators a
    parameter; unless the user says which, or SAVE has a run, which keeps its own."""
    args, flags, option = training.args, training.flags, "--optimizer"
    if option in args.user or flags.value(option) != "adam":
        return
    record = read_json(args.save / MANIFEST) or {} if any(args.save.glob("*.pt")) else {}
    default = "adam" if "--cpu" in flags else "fused_adamw"
    flags.set(option, record.get("settings", {}).get(option) or default)


def launch(training: Training, template: list[str]) -> int:
    """Runs the command of a shell script, filled in. Returns the exit status of the first command that
    failed, see ``supervise``, or 0. Raises UserError if another run is at work in the folder or has been
    before."""
    choose_optimizer(training)
    train, flags = training.train_command(template)
    commands = training.commands(train)
    if training.note:
        print(training.note)
    if training.args.print:
        print(*map(shlex.join, commands), sep="\n")
        return 0
    # first of processes that train together: acts for all in the folder
    first, save = os.environ.get("RANK", "0") == "0", training.args.save
    with locked(save) if first else contextlib.nullcontext() as lock:
        if first:
            take(training, train, flags)
        if training.evaluation is not None and (save / RESULT).exists():
            scores = scores_of(read_json(save / RESULT))
            print(f"finished before: {save / RESULT} ({scores}); to train it again, remove that")
            return 0
        ended = has_ended(save, flags)
        if ended and training.evaluation is None:
            scores = [one for one in read_log(save / LOG) if one["kind"] == "valid"]
            score = f"; valid loss {digits(scores[-1].get('loss'))}" if scores else ""
            print(f"finished before: {ended}{score}")
            return 0
        if first and training.imported and not ended and not (save / IMPORTED).is_file():
            write_checkpoint(training.imported, save / IMPORTED)
        for command in commands[bool(ended) : None if first else 1]:
            if status := run(command, save / LOG, lock):
                return status
            if (read_json(save / ENDED) or {}).get("by") == TIME:
                print(f"{TIME} {flags.value(TIME)} ended this call: rerun the same command to resume")
                return UNFINISHED
        if first and training.evaluation is not None:
            for name in (IMPORTED, LAST, *(() if training.keep_best else (BEST_FILE,))):
                (save / name).unlink(missing_ok=True)
        results = ("*_best.pt", "*_last.pt", RESULT)
        if first and (made := [path.name for pattern in results for path in save.glob(pattern)]):
            print(f"{save} has {', '.join(made)}")
    return 0


def take(training: Training, train: list[str], flags: Flags) -> None:
    """Makes a folder that of a training, whose call of fairseq-train is ``train``; see ``claim``."""
    save, inputs = training.args.save, {}
    for name, paths in training.inputs.items():
        inputs[name] = sha256(*paths, most=MOST_HASHED)
    if training.dictionary:
        vocabulary, kept = Vocabulary.read(training.dictionary), save / DICT_FILE
        if kept.is_file() and any(save.glob("*.pt")):
            vocabulary.check(Vocabulary.read(kept), "choose another SAVE, or the data of its run")
        inputs[DICT_FILE] = vocabulary.identity
    claim(save, training.all_settings(flags), inputs, training.args.command, RESULTS, runs=train)
    for path in save.glob("checkpoint*.pt.[0-9]*.tmp"):  # left by a run that was killed
        path.unlink()
    if training.dictionary:
        copy(training.dictionary, kept)


def has_ended(save: Path, flags: Flags) -> str:
    """Returns what ended the training that would be resumed, and how it may go on; "" if its flags let it."""
    ended = read_json(save / ENDED) or {"by": TIME}
    by, limit = ended["by"], flags.value(ended["by"])
    resumed = (save / LAST).exists() and flags.value("--restore-file") in (None, LAST)
    if not resumed or by == TIME or "--reset-optimizer" in flags:
        return ""
    if limit is None or float(limit) != ended["limit"]:
        return ""
    way_out = "give --updates" if by == "--max-update" else f"change {by}"
    updates = counted(ended["updates"], "update")
    return f"{save / LAST} has had {updates}, ended by {by} {limit}; for more, {way_out}"


def run(command: list[str], log: Path, lock: int | None) -> int:
    """Runs a command, which holds the lock until it has ended; without a lock, another process keeps the log.
    Returns its exit status, see ``supervise``."""
    program = [*PROGRAMS.get(command[0], command[:1]), *command[1:]]
    if lock is None:
        return supervise(program)
    if command[0] != "fairseq-train":
        return supervise(program, log, hold=[lock])
    progress = Progress(Flags.of(command[2:]))
    status = supervise(program, log, hold=[lock], view=progress)
    print(progress.end(status), end="", flush=True)
    return status
