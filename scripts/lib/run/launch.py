"""What a shell script trains: its user's words, resolved to a :class:`Training`, as variables of bash.

``python -m lib.run.pretraining`` and ``python -m lib.finetuning.launch`` print them for lib/common.sh: save,
data, flags of fairseq-train, each once with the last value, and the record that lib/run/folder.py keeps in
the folder, by which another run is refused.
"""

import argparse
import json
import os
import re
import shlex
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from lib.command_line import Flags, UserError, argument_parser, count, counted
from lib.files import MANIFEST, read_json, sha256
from lib.run.folder import IMPORTED
from lib.run.on_gpu import visible_gpus

LAST, BEST_FILE = "checkpoint_last.pt", "checkpoint_best.pt"
MOST_HASHED = 1 << 30  # bytes of each file that a run reads: a second
# Flags that a resumed run may change, by how they begin: on what it runs, how often to look and to save, and
# the batch of a step (that of an update is a setting of its own).
FREE = re.compile(
    "--(batch-size|checkpoint-act|continue-once|cpu|data-buffer|ddp|device|distributed|empty-cache|finetune-from"
    "|find-unused|keep|log|max-tokens|no-epoch|no-progress|nprocs|num-workers|offload|reset|restore|save"
    "|stop-time-hours|tensorboard|update-freq|user-dir|validate|wandb)"
)
LESS_IS_BETTER = ("loss", "nll_loss", "ppl", "rmse", "mae", "scaled_rmse")
BEST_BY, MAXIMIZE = "--best-checkpoint-metric", "--maximize-best-checkpoint-metric"
DISTRIBUTED = ("RANK", "MASTER_ADDR", "MASTER_PORT")
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
    # the model that it starts from; a folder for transformers becomes SAVE/IMPORTED while this trains
    start: Path | None = None

    def choose_checkpoints(self) -> None:
        """Has no checkpoints of epochs unless they are asked for, and the best by the user's metric. Raises
        UserError for one that no validation logs: fairseq would find out at the first."""
        flags, user = self.flags, self.args.user
        if "--keep-last-epochs" not in user:
            flags.set("--no-epoch-checkpoints")
        if metric := user.value(BEST_BY):
            if metric not in self.metrics:
                raise UserError(f"{BEST_BY} {metric}: choose one of {', '.join(self.metrics)}")
            flags.pop_all(MAXIMIZE)
            if metric not in LESS_IS_BETTER:
                flags.set(MAXIMIZE)

    def all_settings(self) -> dict:
        """Returns what may not differ when the run is resumed, the flags of fairseq-train among it."""
        flags = fixed(self.flags, self.free)
        return self.settings | {name: " ".join(flags[name]) for name in sorted(flags)}

    @property
    def dropped(self) -> list[str]:
        """Returns the files of SAVE that go after the evaluation; a pre-training has none."""
        always = [] if self.evaluation is None else [IMPORTED, LAST]
        return always if self.keep_best else [*always, BEST_FILE]

    def record(self) -> dict:
        """Returns what the folder's manifest has, and what lib/run/folder.py has to know."""
        return {
            "settings": self.all_settings(),
            "inputs": {name: sha256(*paths, most=MOST_HASHED) for name, paths in self.inputs.items()},
            "command": self.args.command,
            "runs": ["fairseq-train", self.data, *self.flags.words()],
            "dictionary": self.dictionary and str(self.dictionary),
            "start": self.start and str(self.start.resolve()),
            "evaluated": self.evaluation is not None,
            "workers": self.flags.whole("--distributed-world-size"),
        }


def fixed(flags: Flags, free: Container[str] = ()) -> Flags:
    """Returns the flags that a resumed run may not change: those that neither FREE nor ``free`` has."""
    return Flags({name: flags[name] for name in flags if not FREE.match(name) and name not in free})


def arguments(
    script: str, names: list[str], words: list[str], add_options: Callable, refused: dict
) -> argparse.Namespace:
    """Returns what a script that trains was called with: its own options; ``user``, further flags for
    fairseq-train; ``command``, its words.

    Args:
        script: its name; the comment at its head is the help.
        names: its arguments; ``save`` among them.
        add_options: adds those besides devices, precision and --print by the ``add_argument`` that it gets.
        refused: flags of fairseq-train that it does not take -> why. Given, they raise UserError.
    """
    lines = (Path(__file__).parents[2] / script).read_text(encoding="utf-8").splitlines()[1:]
    head = "\n".join(line[2:] for line in takewhile(lambda line: line.startswith("#"), lines))
    parser = argument_parser(head, prog=script)
    for name in names:
        of_type = Path if name in ("checkpoint", "save") else str  # DATA may be several, joined by ':'
        parser.add_argument(name, metavar=name.upper(), type=of_type)
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

    Raises:
        UserError: for half precision on a CPU, for several processes of a training of one GPU, and for some
            that do not know of each other.
    """
    gpus = len(visible_gpus(environment)) if args.gpus is None else args.gpus
    if one_gpu:
        if int(environment.get("WORLD_SIZE") or 1) > 1:
            raise UserError("this training is of one GPU: call the script by itself, without torchrun")
        environment, gpus = {}, min(gpus, 1)
    if not gpus and args.precision == "fp16":
        raise UserError("--fp16 needs a GPU, and this training has none: give --bf16 or --fp32")
    flags = Flags() if gpus else Flags.of("--cpu --num-workers 0")
    default = "fp16" if gpus and not OWN_PRECISION & args.user.keys() else "fp32"
    flags |= Flags.of(PRECISIONS[args.precision or default][0])
    workers = max(gpus, 1)
    if (together := int(environment.get("WORLD_SIZE") or 1)) > 1:
        if missing := [name for name in DISTRIBUTED if not environment.get(name)]:
            raise UserError(f"WORLD_SIZE={together}, but no {missing[0]}: set all, as torchrun does, or none")
        (rank, host, port), workers = (environment[name] for name in DISTRIBUTED), together
        flags |= Flags.of(f"--distributed-rank {rank} --distributed-no-spawn")
        flags |= Flags.of(f"--distributed-init-method tcp://{host}:{port}")
        device = f"--device-id {int(environment.get('LOCAL_RANK') or rank) % gpus}" if gpus else ""
        flags |= Flags.of(device or "--distributed-backend gloo --ddp-backend legacy_ddp")
    elif environment.get("WORLD_SIZE") and args.gpus is None:
        workers = 1
    return workers, flags | Flags.of(f"--distributed-world-size {workers}")


def drop_schedule(flags: Flags, user: Flags) -> None:
    """Drops the warm-up and the length of configs/'s schedule if the user chose another, which may not take
    them."""
    if flags.value("--lr-scheduler") != "polynomial_decay":
        flags.pop_all(*{"--warmup-updates", "--total-num-update"} - user.keys())


def choose_optimizer(training: Training) -> None:
    """On a GPU puts PyTorch's fused AdamW in the place of fairseq's ``adam``, which takes ten operators a
    parameter; unless the user says which, SAVE has a run, which keeps its own, or fairseq's optimizers alone
    will do (--memory-efficient-*)."""
    args, flags, option = training.args, training.flags, "--optimizer"
    own = option in args.user or any(name.startswith("--memory-efficient") for name in flags)
    if own or flags.value(option) != "adam":
        return
    is_resumed = {*args.save.glob("*.pt")} - {args.save / IMPORTED}
    record = read_json(args.save / MANIFEST) or {} if is_resumed else {}
    default = "adam" if "--cpu" in flags else "fused_adamw"
    flags.set(option, record.get("settings", {}).get(option) or default)


def check_gpus(flags: Flags, asked: int | None = None) -> None:
    """Raises UserError if PyTorch sees fewer GPUs than this call trains on, or, unless ``asked`` for none,
    GPUs where nvidia-smi, which counts them, does not."""
    import torch

    if "--cpu" in flags:
        if asked is None and (seen := torch.cuda.device_count()):
            raise UserError(f"PyTorch sees {counted(seen, 'GPU')}, nvidia-smi none: give --gpus N or --cpu")
        return
    # of several machines, a process each, or each as many as it has
    wanted = 1 if "--distributed-init-method" in flags else flags.whole("--distributed-world-size")
    if (seen := torch.cuda.device_count()) < wanted:
        raise UserError(
            f"PyTorch sees {seen} of {counted(wanted, 'GPU')}: give --gpus N or --cpu, or install its "
            "CUDA build"
        )


def as_bash(training: Training) -> str:
    """Returns a training as variables of bash."""
    if not training.args.print:
        check_gpus(training.flags, training.args.gpus)
    choose_optimizer(training)
    training.choose_checkpoints()
    args, note = training.args, training.note
    texts = {"save": str(args.save), "data": training.data, "note": note, "print": "1" * args.print}
    texts["record"] = "" if args.print else json.dumps(training.record(), default=str)
    # of processes that train together, the first holds the folder, and evaluates
    texts["first"] = "1" * (training.flags.value("--distributed-rank") in (None, "0"))
    lists = {"flags": training.flags.words(), "evaluation": training.evaluation or []}
    lists["drop"] = training.dropped
    lines = [f"{name}={shlex.quote(text)}" for name, text in texts.items()]
    return "\n".join([*lines, *(f"{name}=({shlex.join(words)})" for name, words in lists.items())])
