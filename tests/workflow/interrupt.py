"""Runs targets of the workflow twice, once killed three times with SIGKILL, and compares the results.

    python tests/workflow/interrupt.py OUTPUT TARGET... -- [Snakemake's options] --config size=smoke ...

OUTPUT/whole is made without interruption, OUTPUT/interrupted in four calls of the same command. Killed are
the engine; the engine and all that it had started; one training, which the engine sees fail; each time when
a training has saved another checkpoint. Times and machines aside, every result has to be the same. Needs
psutil, which Snakemake installs.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / "scripts" / "workflow"
RESULTS = (
    "train.json",
    "entropy.json",
    "probe.json",
    "result.json",
    "best.json",
    "scores.json",
    "metrics.json",
)
# what two runs of the same differ in
VARYING = {
    "wall_seconds",
    "cpu_seconds",
    "training_seconds",
    "machine",
    "wps",
    "ups",
    "wall",
    "train_wall",
    "command",
}
VARYING |= {"fairseq_train", "checkpoint", "seconds", "data"}
POLL = 0.2


def command(output: Path, targets: list[str], options: list[str]) -> list[str]:
    options = [*options] if "--config" in options else [*options, "--config"]
    options.insert(options.index("--config") + 1, f"output={output}")
    snakefile, profile = WORKFLOW / "Snakefile", WORKFLOW / "profiles" / "local"
    return ["snakemake", "-s", str(snakefile), *targets, "--profile", str(profile), *options]


def results(output: Path) -> dict[str, object]:
    """The results below a folder, without what varies."""
    found = {}
    for path in sorted(output.rglob("*.json")):
        if path.name in RESULTS:
            found[str(path.relative_to(output))] = stripped(json.loads(path.read_text()))
    return found


def stripped(content):
    if isinstance(content, dict):
        return {name: stripped(value) for name, value in content.items() if name not in VARYING}
    return [stripped(value) for value in content] if isinstance(content, list) else content


def differences(one, other, place: str) -> list[str]:
    """Where two results differ; numbers may by a rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted(one.keys() | other.keys())
        return [d for n in names for d in differences(one.get(n), other.get(n), f"{place}: {n}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{place}[{i}]")]
    if isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=1e-6):
        return []
    return [] if one == other else [f"{place}: {one!r} and {other!r}"]


def trainings(engine: psutil.Process) -> list[psutil.Process]:
    found = []
    for process in engine.children(recursive=True):
        try:
            if "fairseq_cli.train" in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


def saved(output: Path) -> int:
    """How many checkpoints trainings have saved so far."""
    return sum(
        path.read_text(errors="replace").count("Saved checkpoint") for path in output.rglob("train.log")
    )


def call(words: list[str], output: Path, kill: str | None = None) -> int | None:
    """Calls the engine; its exit status, None if it was killed.

    Args:
        kill: what to kill once: ``engine``, ``all`` or ``training``.
    """
    start, before = time.monotonic(), saved(output)
    with Path(f"{output}.log").open("a") as file:
        engine = psutil.Popen(words, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
    while engine.poll() is None:
        time.sleep(POLL)
        if kill is None or saved(output) == before or not (found := trainings(engine)):
            continue
        print(f"{time.monotonic() - start:.0f} s: kill -9 of {kill}", flush=True)
        if kill == "training":
            found[0].kill()
            kill = None
            continue
        every = engine.children(recursive=True) if kill == "all" else []
        for process in [engine, *every]:
            process.kill()
        engine.wait()
        return None
    return engine.wait()


def main() -> int:
    if "--" not in sys.argv:
        raise SystemExit(__doc__)
    cut = sys.argv.index("--")
    output, *targets = sys.argv[1:cut]
    options = sys.argv[cut + 1 :]
    whole, interrupted = Path(output) / "whole", Path(output) / "interrupted"
    for folder in (whole, interrupted):
        if folder.exists():
            raise SystemExit(f"{folder} exists: choose another OUTPUT")
        folder.mkdir(parents=True)
    start = time.monotonic()
    if status := call(command(whole, targets, options), whole):
        raise SystemExit(f"the uninterrupted run failed with {status}: see {whole}.log")
    print(f"uninterrupted: {time.monotonic() - start:.0f} s, {len(results(whole))} results", flush=True)
    words = command(interrupted, targets, options)
    for kill in ("engine", "all", "training"):
        status = call(words, interrupted, kill)
        print(f"  exit status {status}; {len(results(interrupted))} results", flush=True)
    if status := call(words, interrupted):
        raise SystemExit(f"the last call failed with {status}: see {interrupted}.log")
    found = differences(results(whole), results(interrupted), "")
    print("\n".join(found) or f"all {len(results(whole))} results are equal")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
