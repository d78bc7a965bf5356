"""Runs targets of the workflow twice, once killed three times with SIGKILL, and compares the results.

    PYTHONPATH=scripts python tests/workflow/interrupt.py OUTPUT TARGET... -- [OPTION...] --config SETTING...

OPTION and SETTING are those of snakemake. OUTPUT/whole is made without interruption, OUTPUT/interrupted in
four calls of the same command. Killed are the engine; the engine and all that it had started; one training,
which the engine sees fail: when a quarter, a half and three quarters of the checkpoints are saved. Every
result and the report have to be the same, times aside. Needs psutil, which Snakemake installs.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / "scripts" / "workflow"
TIMES = {"gpu_seconds", "seconds", "wps", "ups", "wall", "train_wall", "manifest"}
TIMES_OF_REPORT = re.compile(r"^### Table 12.*?(?=^##|\Z)", re.M | re.S)
KILLS = ("engine", "all", "training")


def results(output: Path) -> dict[str, object]:
    """The results below a folder and its report, without times and manifests."""
    found = {}
    for path in sorted(path for path in output.rglob("*.json") if path.name != "manifest.json"):
        content = json.loads(path.read_text().replace(str(output), "OUTPUT"))
        found[str(path.relative_to(output))] = stripped(content)
    text = (output / "report.md").read_text().replace(str(output), "OUTPUT")
    return found | {"report.md": TIMES_OF_REPORT.sub("", text).splitlines()}


def stripped(content):
    if isinstance(content, dict):
        return {name: stripped(value) for name, value in content.items() if name not in TIMES}
    return [stripped(value) for value in content] if isinstance(content, list) else content


def differences(one, other, place: str) -> list[str]:
    """Where two results differ; numbers may by a rounding."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        one, other = dict(enumerate(one)), dict(enumerate(other))
    if isinstance(one, dict) and isinstance(other, dict):
        names = [*one, *(name for name in other if name not in one)]
        return [d for n in names for d in differences(one.get(n), other.get(n), f"{place}: {n}")]
    if isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=1e-6):
        return []
    return [] if one == other else [f"{place}: {one!r} and {other!r}"]


def saved(output: Path) -> int:
    """How many checkpoints trainings have saved so far."""
    return sum(
        path.read_text(errors="replace").count("Saved checkpoint") for path in output.rglob("train.log")
    )


def call(words: list[str], output: Path, kill: str = "", checkpoints: float = 0) -> None:
    """Calls the engine; kills one of KILLS while a training is at work, at so many checkpoints."""
    start = max(saved(output) + 1, checkpoints)
    with Path(f"{output}.log").open("a") as file:
        engine = psutil.Popen([*words, f"output={output}"], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
    while engine.poll() is None:
        time.sleep(0.5)
        below = engine.children(recursive=True)
        training = next((one for one in below if "fairseq_cli.train" in " ".join(one.cmdline())), None)
        if kill and training and saved(output) >= start:
            for process in {"engine": [engine], "all": [engine, *below], "training": [training]}[kill]:
                process.kill()
            print(f"killed {kill} after {saved(output)} checkpoints", flush=True)
            kill = ""
    if kill:
        raise SystemExit(f"the call ended before it could be killed: see {output}.log")


def main() -> int:
    if "--" not in sys.argv:
        raise SystemExit(__doc__)
    cut = sys.argv.index("--")
    output, *targets = sys.argv[1:cut]
    files = ["-s", str(WORKFLOW / "Snakefile"), "--profile", str(WORKFLOW / "profiles" / "local")]
    words = ["snakemake", *files, *targets, *sys.argv[cut + 1 :]]
    whole, interrupted = Path(output).absolute() / "whole", Path(output).absolute() / "interrupted"
    for folder in (whole, interrupted):
        folder.mkdir(parents=True)
    call(words, whole)
    for i, kill in enumerate(KILLS, 1):
        call(words, interrupted, kill, i / 4 * saved(whole))
    call(words, interrupted)
    found = differences(results(whole), results(interrupted), "")
    print("\n".join(found) or f"all {len(results(whole))} results are equal")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
