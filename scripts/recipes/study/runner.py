"""Runs the steps of a grid: one run at a time on each device, finished ones skipped, failures collected."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from recipes import logs
from recipes.study.folder import ROOT, FolderError, git_commit, read_json, versions, write_json
from recipes.study.grids import Run
from recipes.study.steps import Step, Study, command_of, finish, shown, steps_of

REPORT_EVERY = 60.0  # seconds between two lines on a run that is going on
LOG_LINES = 15
EVALUATION_COST = 0.3  # of a step after the training, where a training without repetition is 1

# Ends with the runner, however that ends: a training that outlived it would write into the next one's.
_GUARD = (
    "import ctypes, os, signal, sys\n"
    "try: ctypes.CDLL(None).prctl(1, signal.SIGTERM)\n"
    "except (OSError, AttributeError): pass\n"
    "if os.getppid() != int(sys.argv[1]): sys.exit('the runner is gone')\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)


@dataclass
class Grid:
    """Runs with what is measured of them, to be done on devices (None: the CPU; several share it)."""

    study: Study
    runs: dict[Run, set[str]]
    devices: list[str | None]
    failures: list[tuple[Run, Step, str]] = field(default_factory=list)
    _children: set = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False
    _cost_done: float = 0.0
    _cost: float = 0.0
    _finished: int = 0
    _cpu_seconds: float = 0.0

    # What a run consists of; another kind of grid has others (glue/sweep.py).

    def steps(self, run: Run) -> list[Step]:
        return steps_of(self.study, run, self.runs[run])

    def command(self, run: Run, step: Step, device: str | None) -> list[str]:
        return command_of(self.study, run, step, device)

    def finish(self, run: Run, step: Step) -> None:
        """Turns what a command left into the step's result."""
        finish(self.study, run, step)

    def cost(self, run: Run, step: Step) -> float:
        return step_cost(run, step)

    def missing(self, run: Run) -> list[Step]:
        return [step for step in self.steps(run) if not step.done]

    def execute(self) -> None:
        """Does all that is missing; ``failures`` then has the steps that failed and the end of their logs."""
        waiting: queue.Queue[Run] = queue.Queue()
        missing = {run: steps for run in self.runs if (steps := self.missing(run))}
        self._cost = sum(self.cost(run, step) for run, steps in missing.items() for step in steps)
        self._todo, self._start = len(missing), time.monotonic()
        say(f"{len(self.runs)} runs, {len(self.runs) - len(missing)} of them finished before")
        for run in missing:
            waiting.put(run)
        workers = [threading.Thread(target=self._work, args=(waiting, device)) for device in self.devices]
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                while worker.is_alive():  # a join without a timeout would not be interrupted
                    worker.join(0.5)
        except BaseException:
            self._stop()
            for worker in workers:
                worker.join()
            raise
        if missing:
            wall = time.monotonic() - self._start
            say(f"done in {clock(wall)}; CPU time of all commands {clock(self._cpu_seconds)}")

    def _work(self, waiting: queue.Queue, device: str | None) -> None:
        while not self._stopped:
            try:
                run = waiting.get_nowait()
            except queue.Empty:
                return
            for step in self.missing(run):
                try:
                    self._do(run, step, device)
                except FolderError as error:
                    self._failed(run, step, str(error))
                except Exception as error:  # of one run: the others go on
                    self._failed(run, step, f"{type(error).__name__}: {error}")
                with self._lock:
                    self._cost_done += self.cost(run, step)
                if self._stopped or not step.done:
                    break  # what is measured needs the training; the next start tries again
            with self._lock:
                self._finished += 1

    def _do(self, run: Run, step: Step, device: str | None) -> None:
        folder = self.study.folder(run)
        folder.mkdir(parents=True, exist_ok=True)
        command = self.command(run, step, device)
        self._say(run, step, f"starts{'' if device is None else f' on GPU {device}'}")
        record = self._note_start(folder, run, step, command)
        start = time.monotonic()
        code, cpu_seconds = self._call(command, run, step, device)
        attempt = record["attempts"][-1]
        attempt |= {"exit_status": code, "wall_seconds": round(time.monotonic() - start, 2)}
        attempt["cpu_seconds"] = round(cpu_seconds, 2)
        write_json(folder / "run.json", record)
        self._cpu_seconds += cpu_seconds
        if self._stopped:
            return
        if code != 0:
            self._failed(run, step, end_of(step.log))
            return
        self.finish(run, step)
        self._say(run, step, f"done in {clock(attempt['wall_seconds'])}")

    def _note_start(self, folder: Path, run: Run, step: Step, command: list[str]) -> dict:
        """run.json before a command starts: an attempt that is killed stays without an exit status."""
        record = read_json(folder / "run.json") or {**asdict(run), "commands": {}, "attempts": []}
        record["commands"][step.name] = command
        if step.name == "train":
            record["commands"]["fairseq-train"] = shown(command)
        record |= {"commit": git_commit(), "versions": versions()}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record["attempts"].append({"step": step.name, "started": now, "commit": record["commit"]})
        write_json(folder / "run.json", record)
        return record

    def _call(self, command: list[str], run: Run, step: Step, device: str | None) -> tuple[int, float]:
        """(exit status, CPU seconds) of a command whose output goes to the end of the step's log."""
        environment = {**os.environ, "EXLM_PYTHON": sys.executable, "PYTHONUNBUFFERED": "1"}
        environment["CUDA_VISIBLE_DEVICES"] = "" if device is None else device
        if device is None and len(self.devices) > 1:
            # threads of several commands that wait for each other's cores cost more than they bring
            environment["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // len(self.devices)))
        with step.log.open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-S", "-c", _GUARD, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=environment,
            )
        with self._lock:
            self._children.add(child)
            if self._stopped:
                os.kill(child.pid, signal.SIGTERM)
        reported = time.monotonic()
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.1)
            if time.monotonic() - reported > REPORT_EVERY:
                reported = time.monotonic()
                self._say(run, step, state_of(step))
        with self._lock:
            child.returncode = os.waitstatus_to_exitcode(status)
            self._children.discard(child)
        return child.returncode, usage.ru_utime + usage.ru_stime

    def _stop(self) -> None:
        # by os.kill: Popen would wait for the child first, whose status and CPU time _call is to get
        with self._lock:
            self._stopped = True
            for child in self._children:
                os.kill(child.pid, signal.SIGTERM)

    def _failed(self, run: Run, step: Step, text: str) -> None:
        with self._lock:
            self.failures.append((run, step, text))
        self._say(run, step, f"FAILED, see {step.log}")

    def _say(self, run: Run, step: Step, text: str) -> None:
        gone = time.monotonic() - self._start
        left = ""
        if self._cost_done > 0:
            left = f", about {clock(gone / self._cost_done * (self._cost - self._cost_done))} left"
        say(f"[{self._finished}/{self._todo} runs, {clock(gone)} gone{left}] {run.key}: {step.name} {text}")


def step_cost(run: Run, step: Step) -> float:
    """How long a step takes, in units of a training without repetition: for the time left."""
    return 1 + run.cost if step.name == "train" else EVALUATION_COST * (1 + run.cost)


def say(text: str) -> None:
    print(text, flush=True)


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def end_of(log: Path, lines: int = LOG_LINES) -> str:
    """The last lines of a log, without the long ones of fairseq's configuration."""
    with log.open(encoding="utf-8", errors="replace") as file:
        return "\n".join(line.rstrip()[:300] for line in deque(file, maxlen=lines))


def state_of(step: Step) -> str:
    records = [r for r in logs.read_log(step.log) if r.get("loss") is not None]
    return f"is at update {records[-1]['update']:,}, loss {records[-1]['loss']:g}" if records else "goes on"
