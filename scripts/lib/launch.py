"""Runs a training: the commands of a shell script, filled in with what was asked for, in a folder of its own.

    python -m lib.pretraining text COMMAND... [then COMMAND...] -- ARGUMENT...

and its like are called by the shell scripts that train. In the commands, @NAME stands for words of the
resolved :class:`Training`; fairseq-train gets each flag once, with the last value. A command after ``then``
runs if the one before succeeded. The folder is locked until the last one ends, and their output is appended
to SAVE/train.log. ``--print`` shows the commands instead.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from lib.command_line import Flags, UserError, argument_parser, count
from lib.files import ROOT, claim, locked, sha256

LOG = "train.log"
RESULTS = ("*.pt", "*.json")  # of whatever is trained
PROGRAMS = {"fairseq-train": [sys.executable, "-m", "fairseq_cli.train"], "python": [sys.executable]}
# Flags that a resumed run may change, by how they begin: on what it runs, how often to look and to save, and
# the batch of a step (that of an update is a setting of its own).
FREE = re.compile(
    "--(amp|batch-size|bf16|checkpoint-act|cpu|data-buffer|ddp|device|distributed|empty-cache|finetune-from"
    "|find-unused|fp16|keep|log|max-tokens|memory-efficient|no-epoch|no-progress|nprocs|num-workers|offload"
    "|reset|restore|save|tensorboard|update-freq|user-dir|validate|wandb)"
)
DISTRIBUTED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PRECISIONS = {
    "fp16": Flags.of(["--fp16", "--fp16-scale-tolerance", "0.1", "--fp16-scale-window", "50"]),
    "bf16": Flags.of(["--bf16"]),
    "fp32": Flags(),
}


@dataclass
class Training:
    """What was asked for, resolved.

    Attributes:
        save: the folder of the run.
        data: what fairseq-train reads, as it is given to it.
        flags: of fairseq-train.
        words: name -> words; what else the commands are filled in with.
        settings: what may not differ when the run is resumed, besides the flags.
        inputs: name -> files that are read, which may not differ either.
        finished: says why there is nothing to do, "" if there is something.
        show: whether to show the commands instead.
        free: flags that this kind of training may change when it is resumed, besides FREE.
        notes: what to tell the user before.
    """

    save: Path
    data: str
    flags: Flags
    words: dict[str, list[str]] = field(default_factory=dict)
    settings: dict = field(default_factory=dict)
    inputs: dict[str, list[Path]] = field(default_factory=dict)
    finished: Callable[[], str] = str
    show: bool = False
    free: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    def fill(self, template: list[str]) -> list[str]:
        """A command: ``@NAME`` becomes the words of that name, ``@NAME/FILE`` a file in that folder."""
        values = {"save": [str(self.save)], "data": [self.data], "flags": self.flags.words(), **self.words}
        words = []
        for word in template:
            name, slash, file = word[1:].partition("/")
            words += [one + slash + file for one in values[name]] if word.startswith("@") else [word]
        if words[0] == "fairseq-train":
            words[2:] = Flags.of(words[2:]).words()
        return words

    def all_settings(self, command: list[str]) -> dict:
        """What may not differ when the run is resumed, the flags of fairseq-train among it."""
        flags = {name: " ".join(values) for name, values in sorted(Flags.of(command[2:]).items())}
        kept = {name: v for name, v in flags.items() if not FREE.match(name) and name not in self.free}
        return self.settings | kept


def launch(script: str, resolve: Callable[[list[str]], Training], words: list[str]) -> int:
    """Runs the commands in ``words``, filled in with what the arguments after ``--`` resolve to.

    Args:
        script: what the user called, for the manifest.

    Returns:
        The exit status of the first command that failed, or 0; 128 + N if signal N ended it.

    Raises:
        UserError: if it cannot be trained, or another run is at work in the folder or has been before.
    """
    end = words.index("--")
    template, given = words[:end], words[end + 1 :]
    training = resolve(given)
    commands = [[]]
    for word in template:
        commands[-1].append(word) if word != "then" else commands.append([])
    commands = [training.fill(command) for command in commands]
    print(*training.notes, sep="\n", end="\n" if training.notes else "")
    if training.show:
        print(*map(shlex.join, commands), sep="\n")
        return 0
    first = (
        os.environ.get("RANK", "0") == "0"
    )  # of processes that train together, it works for all in the folder
    inputs = {name: sha256(*paths) for name, paths in training.inputs.items()}
    with locked(training.save) if first else nullcontext() as lock:
        if first:
            settings = training.all_settings(commands[0])
            claim(training.save, settings, inputs, [script, *given], RESULTS, runs=commands[0])
        if said := training.finished():
            print(said)
            return 0
        for command in commands if first else commands[:1]:
            if status := run(command, training.save / LOG, lock):
                return status
    return 0


def run(command: list[str], log: Path, lock: int | None) -> int:
    """Runs a command, whose output goes to the screen and the log; 128 + N if signal N ended it.

    Args:
        lock: a file descriptor that the command inherits, so that it holds the folder until it has ended.
            None for a process that leaves folder and log to another.
    """
    command = [*PROGRAMS.get(command[0], command[:1]), *command[1:]]
    if lock is None:
        return subprocess.call(command)
    with log.open("ab") as file:
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[lock],
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        before = [signal.signal(signal.SIGTERM, lambda *_: child.terminate())]
        before.append(
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        )  # Ctrl-C reaches the command too, which answers it
        while chunk := child.stdout.read1(1 << 16):  # at once, for a progress bar
            for stream in (file, sys.stdout.buffer):
                stream.write(chunk)
                stream.flush()
    status = child.wait()
    for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
        signal.signal(number, handler)
    if status == -signal.SIGINT:  # after Python's traceback
        print(f"interrupted: rerun the same command to resume; the log is {log}", file=sys.stderr)
    return status if status >= 0 else 128 - status


def _end_with_parent() -> None:
    """Nobody would log what a training does whose launcher was killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def script_parser(script: str, one_worker: bool = False) -> argparse.ArgumentParser:
    """What all scripts that train take: the words in capitals in the header of the script, which is also its
    help, devices and --print."""
    lines = (ROOT / "scripts" / script).read_text(encoding="utf-8").splitlines()[1:]
    about = "\n".join(line[2:] for line in itertools.takewhile(lambda line: line.startswith("#"), lines))
    _, *words = usage = re.search(f"{re.escape(script)} .*", about)[0].split(" ")
    parser = argument_parser(about, prog=script, usage=" ".join(usage))
    for name in itertools.takewhile(str.isupper, words):
        parser.add_argument(name.lower(), metavar=name, help=argparse.SUPPRESS)
    group = parser.add_mutually_exclusive_group()
    most, default = (", at most 1", "1 if any is visible") if one_worker else ("", "the visible ones")
    group.add_argument("--gpus", type=count, metavar="N", help=f"GPUs to train on{most} (default: {default})")
    group.add_argument("--cpu", dest="gpus", action="store_const", const=0, help="train on the CPU")
    group = parser.add_mutually_exclusive_group()
    about = ("half precision (default on GPUs)", "bfloat16", "single precision (default on the CPU)")
    for name, text in zip(PRECISIONS, about, strict=True):
        group.add_argument(f"--{name}", dest="precision", action="store_const", const=name, help=text)
    parser.add_argument("--print", action="store_true", help="show the commands; train nothing")
    return parser


def devices(args: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> tuple[int, Flags]:
    """(processes that train together, flags) for the GPUs asked for, else the visible ones.

    Alone, a process starts one worker a GPU; with RANK and its like in the environment, as torchrun and the
    SLURM example of docs/data.md set them, it is itself one of WORLD_SIZE workers.

    Raises:
        UserError: if the environment says something that cannot be.
    """
    gpus = len(visible_gpus(environment)) if args.gpus is None else args.gpus
    flags = Flags() if gpus else Flags.of(["--cpu", "--num-workers", "0"])
    flags |= PRECISIONS[args.precision or ("fp16" if gpus else "fp32")]
    workers = max(gpus, 1)
    if environment.get("RANK") or environment.get("WORLD_SIZE"):
        if missing := [name for name in DISTRIBUTED if not environment.get(name)]:
            raise UserError(
                f"RANK or WORLD_SIZE is set, but not {missing[0]}: processes that train together need all of "
                f"{', '.join(DISTRIBUTED)} (and LOCAL_RANK), as torchrun sets them"
            )
        rank, workers, host, port = (environment[name] for name in DISTRIBUTED)
        if (workers := int(workers)) > 1:
            flags |= Flags.of(["--distributed-rank", rank, "--distributed-no-spawn"])
            flags.set("--distributed-init-method", f"tcp://{host}:{port}")
            if gpus:
                flags.set("--device-id", int(environment.get("LOCAL_RANK") or rank) % gpus)
            else:
                flags |= Flags.of(["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"])
    flags.set("--distributed-world-size", workers)
    return workers, flags


def visible_gpus(environment: Mapping[str, str] = os.environ) -> list[str]:
    """What CUDA_VISIBLE_DEVICES can name: UUIDs, which mean the same GPU in every job of a machine.

    A GPU named by a number in CUDA_VISIBLE_DEVICES is looked up; one that is named otherwise stays as it is.
    """
    query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        found = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        found = []
    asked = environment.get("CUDA_VISIBLE_DEVICES")
    if asked is None:
        return found
    gpus = []
    for name in asked.split(","):  # CUDA sees the ones before the first that does not exist
        if not name or name.startswith("-") or (name.isdigit() and int(name) >= len(found) > 0):
            break
        gpus.append(found[int(name)] if name.isdigit() and found else name)
    return gpus


def equal_steps(sentences: int, length: int, tokens_per_gpu: int) -> tuple[int, int]:
    """(sentences of a step, steps): a worker's share of an update in the fewest equal steps that fit.

    Args:
        sentences: of the share.
        length: tokens of a sentence, after expansion.
    """
    divisors = (n for n in range(1, sentences) if sentences % n == 0)
    steps = next((n for n in divisors if sentences // n * length <= tokens_per_gpu), sentences)
    return sentences // steps, steps


def split_sentences(update: int, length: int, workers: int, tokens_per_gpu: int) -> Flags:
    """--batch-size of a step and --update-freq, for the sentences of an update.

    Raises:
        UserError: if the update cannot be divided by the workers.
    """
    if update % workers:
        raise UserError(
            f"--batch-size {update} cannot be split evenly over {workers} GPUs: give a multiple of {workers}"
        )
    sentences, steps = equal_steps(update // workers, length, tokens_per_gpu)
    return Flags({"--batch-size": (str(sentences),), "--update-freq": (str(steps),)})
