"""fairseq's commands as the tests call them: in this process, which is fast, or each in one of its own."""

import importlib
import io
import json
import logging
import os
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from unittest import mock

import torch
from fairseq import checkpoint_utils
from fairseq.logging import progress_bar
from lib.command_line import Flags

from fs_plugins.fairseq_patches import messages

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "fs_plugins"

# A model that learns in seconds, and steps that are all logged.
TINY_MODEL = ["--encoder-layers", 1, "--encoder-embed-dim", 32, "--encoder-ffn-embed-dim", 64]
TINY_MODEL += ["--encoder-attention-heads", 2]
OPTIMIZER = ["--optimizer", "adam", "--lr", 5e-3, "--lr-scheduler", "fixed", "--clip-norm", 0]
ON_CPU = ["--cpu", "--num-workers", 0, "--log-format", "json"]
END = "end of a run"
QUIET = [*ON_CPU, "--log-interval", 1, "--seed", 3]


def pretraining(data, save_dir, *flags, arch="exlm_tiny", criterion="nat_dag_loss_mlm") -> list:
    """The flags of a small pre-training run; ``flags`` come last and so win."""
    return [
        *(data, "--user-dir", PLUGIN, "--save-dir", save_dir, "--task", "masked_lm"),
        *("--arch", arch, "--criterion", criterion, "--tokens-per-sample", 32, "--batch-size", 8),
        *("--mask-prob", 0.15, "--leave-unmasked-prob", 0, "--random-token-prob", 0),
        *("--disable-validation", "--no-epoch-checkpoints", "--max-update", 8),
        *(*OPTIMIZER, *QUIET, *(TINY_MODEL if arch.endswith("_tiny") else []), *flags),
    ]


# The models of configs/model.
VARIANTS = sorted(path.stem for path in (ROOT / "configs" / "model").glob("*.flags"))


def variant(name: str, data, save_dir, *flags) -> list:
    """``pretraining`` of the model of configs/model/NAME.flags, with k = 2 unless it is the vanilla MLM."""
    own = Flags.read(ROOT / "configs" / "model" / f"{name}.flags")
    own.set("--arch", "mlm_tiny" if own.value("--arch") == "p_roberta_base" else "exlm_tiny")
    for copies in own.keys() & {"--repeat-times", "--ext-state-num"}:
        own.set(copies, 2)
    return [*pretraining(data, save_dir), *TINY_MODEL, *own.words(), *flags]


class Run:
    """What a command logged: fairseq's json lines by their tag, and every other line.

    ``output`` is of a process, in which fairseq's logging has lines of ``date | level | tag | message``.
    """

    def __init__(self, output: str):
        self.output, self.lines, self.stats = output, [], {}
        for line in output.splitlines():
            tag, message = line.split(" | ", 3)[2:] if line.count(" | ") > 2 else ("", line)
            if message.startswith("{") and tag.startswith(("train", "valid", "test")):
                self.stats.setdefault(tag, []).append(json.loads(message))
            else:
                self.lines.append(message)

    @property
    def updates(self) -> list[dict]:
        return self.stats.get("train_inner", [])

    def values(self, name: str, tag: str = "train_inner") -> list[float]:
        """The numbers logged under ``name``, in order; the values at the end of epochs are under TAG_NAME."""
        found = [s.get(name, s.get(f"{tag}_{name}")) for s in self.stats.get(tag, [])]
        return [float(value) for value in found]

    def losses(self) -> dict[int, str]:
        """Update -> its loss, to every digit of the log."""
        return {int(s["num_updates"]): s["loss"] for s in self.updates}

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def forget_earlier_runs() -> None:
    """What fairseq keeps in global variables, as one process is one run to it."""
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    for writer in progress_bar._tensorboard_writers.values():
        writer.close()
    progress_bar._tensorboard_writers.clear()


def call(command: str, *flags) -> Run:
    """Runs fairseq-COMMAND with ``flags`` in this process; its exceptions are the caller's."""
    cli = importlib.import_module(f"fairseq_cli.{command}")
    forget_earlier_runs()
    output, root = io.StringIO(), logging.getLogger()
    level, handlers, argv = root.level, root.handlers[:], sys.argv
    root.handlers[:] = [logging.StreamHandler(output)]
    root.handlers[0].setFormatter(logging.Formatter("x | %(levelname)s | %(name)s | %(message)s"))
    root.setLevel(logging.INFO)
    sys.argv = [f"fairseq-{command}", *map(str, flags)]
    try:
        with warnings.catch_warnings(), mock.patch.object(cli, "reset_logging", create=True):
            messages.silence_known_warnings()  # again, as pytest has filters of its own
            cli.cli_main()
    finally:
        forget_earlier_runs()
        sys.argv = argv
        root.handlers[:] = handlers
        root.setLevel(level)
    return Run(output.getvalue())


def train(*flags) -> Run:
    return call("train", *flags)


def start_process(command: list[str], **environment) -> subprocess.Popen:
    """A process with both outputs in one pipe."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)


# fairseq's default backend names a GPU to torch's wrapper, which then refuses a model on the CPU.
WORKER = """
import json, sys
from torch.nn import parallel
class OnCpu(parallel.DistributedDataParallel):
    def __init__(self, module, device_ids, output_device, **options):
        super().__init__(module, **options)
parallel.DistributedDataParallel = OnCpu
from tests.integration import commands
for flags in json.loads(sys.argv[1]):
    print(commands.train(*flags).output, commands.END, flush=True)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def train_on_two(*runs: list) -> list[Run]:
    """Several trainings, one after the other, by two data-parallel workers with fairseq's default backend.

    On this machine's CPU, where fairseq itself starts one process a GPU; the first one logs.
    """
    port, processes = free_port(), []
    for rank in (0, 1):
        workers = ["--distributed-world-size", 2, "--distributed-backend", "gloo", "--distributed-no-spawn"]
        workers += ["--distributed-init-method", f"tcp://localhost:{port}", "--distributed-rank", rank]
        flags = [list(map(str, [*run, *workers])) for run in runs]
        command = [sys.executable, "-W", "ignore", "-c", WORKER, json.dumps(flags)]
        processes.append(start_process(command, GLOO_SOCKET_IFNAME="lo"))
    first, _ = finish(*processes)
    return [*map(Run, first.output.split(END)[:-1])]


def finish(*processes: subprocess.Popen, timeout: float = 300) -> list[Run]:
    """Waits for processes that belong together; all must end well."""
    runs = []
    try:
        for process in processes:
            output, _ = process.communicate(timeout=timeout)
            assert process.returncode == 0, output
            runs.append(Run(output))
    finally:
        for process in processes:
            process.kill()
    return runs


def load_checkpoint(path) -> dict:
    return checkpoint_utils.load_checkpoint_to_cpu(str(path))


def assert_same_model(path_a, path_b, tolerance: float = 0.0) -> None:
    """The tensors of two checkpoints are the same, bit by bit or within ``tolerance``."""
    a, b = (load_checkpoint(path)["model"] for path in (path_a, path_b))
    torch.testing.assert_close(a, b, rtol=0, atol=tolerance)
