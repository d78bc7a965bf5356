"""Runs targets of the workflow twice, once killed three times with SIGKILL, and compares the results.

    PYTHONPATH=scripts python tests/workflow/interrupt.py OUTPUT TARGET... -- [OPTION...] --config SETTING...

OPTION and SETTING are those of snakemake. OUTPUT/whole is made without interruption, OUTPUT/interrupted in
four calls of the same command. Killed are the engine; the engine and all that it had started; one training,
which the engine sees fail: when a quarter, a half and three quarters of the checkpoints are saved. Every
result and the report have to be the same, times aside. OUTPUT/progress.jsonl tells what was killed; rerun the
same command to resume. Needs psutil, which Snakemake installs.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
from lib import logs

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / "scripts" / "workflow"
RECORDS = {"manifest.json"}  # of attempts, not of results
TIMES = {"gpu_seconds", "seconds", "wps", "ups", "wall", "train_wall"}
# of report.md: table 12
TIMES_OF_REPORT = re.compile(r"^### Table 12.*?(?=^##|\Z)", re.M | re.S)
KILLS = ("engine", "all", "training")
POLL = 0.5


def command(output: Path, targets: list[str], options: list[str]) -> list[str]:
    options = [*options] if "--config" in options else [*options, "--config"]
    options.insert(options.index("--config") + 1, f"output={output}")
    snakefile, profile = WORKFLOW / "Snakefile", WORKFLOW / "profiles" / "local"
    return ["snakemake", "-s", str(snakefile), *targets, "--profile", str(profile), *options]


def results(output: Path) -> dict[str, object]:
    """The results below a folder and its report, without times."""
    found = {}
    for path in sorted(output.rglob("*.json*")):
        if path.name not in RECORDS:
            text = path.read_text().replace(str(output), "OUTPUT")
            content = text.splitlines() if path.suffix == ".jsonl" else [text]
            found[str(path.relative_to(output))] = [stripped(json.loads(each)) for each in content]
    if (report := output / "report.md").exists():
        text = report.read_text().replace(str(output), "OUTPUT")
        found["report.md"] = TIMES_OF_REPORT.sub("", text).splitlines()
    return found


def stripped(content):
    if isinstance(content, dict):
        return {name: stripped(value) for name, value in content.items() if name not in TIMES}
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


def trainings(engine: psutil.Process) -> dict[Path, psutil.Process]:
    """Folder -> the training that is at work there."""
    found = {}
    for process in engine.children(recursive=True):
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if "fairseq_cli.train" in words:
            folder = Path(words[words.index("--save-dir") + 1]).absolute()
            found.setdefault(folder, process)  # and not its data loaders, which come later
    return found


def saved(output: Path) -> Counter[Path]:
    """Folder -> how many checkpoints trainings have saved there so far."""
    return Counter(
        {
            path.parent.absolute(): path.read_text(errors="replace").count("Saved checkpoint")
            for path in output.rglob("train.log")
        }
    )


def state(folder: Path, output: Path) -> str:
    update = max((record["update"] for record in logs.read_log(folder / "train.log")), default=0)
    return f"{folder.relative_to(output)} after update {update}"


def call(words: list[str], output: Path, kill: str | None = None, checkpoints: float = 0) -> dict:
    """Calls the engine; what became of it.

    Args:
        kill: what to kill, one of KILLS; None: nothing.
        checkpoints: how many have to be saved before.
    """
    start, before, record = time.monotonic(), saved(output), {"kill": kill}
    with Path(f"{output}.log").open("a") as file:
        engine = psutil.Popen(words, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
    while engine.poll() is None:
        time.sleep(POLL)
        if kill is None or (now := saved(output)).total() < checkpoints:
            continue
        found = trainings(engine)
        if not (advanced := [folder for folder in found if now[folder] > before[folder]]):
            continue
        record["after"] = round(time.monotonic() - start)
        record["at work"] = [state(folder, output) for folder in found]
        if kill == "training":
            found[advanced[0]].kill()
            record["killed"] = state(advanced[0], output)
            kill = None
            continue
        for process in [engine, *(engine.children(recursive=True) if kill == "all" else [])]:
            process.kill()
        break
    record["exit status"] = engine.wait()
    return record | {"seconds": round(time.monotonic() - start), "results": len(results(output))}


def main() -> int:
    if "--" not in sys.argv:
        raise SystemExit(__doc__)
    cut = sys.argv.index("--")
    output, *targets = sys.argv[1:cut]
    options = sys.argv[cut + 1 :]
    whole, interrupted = Path(output).absolute() / "whole", Path(output).absolute() / "interrupted"
    progress = whole.with_name("progress.jsonl")
    done = [json.loads(line) for line in progress.read_text().splitlines()] if progress.exists() else []

    def log(record: dict) -> None:
        with progress.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(json.dumps(record), flush=True)

    if not done:
        shutil.rmtree(whole, ignore_errors=True)  # of a call that ended too early to be uninterrupted
        whole.mkdir(parents=True)
        record = call(command(whole, targets, options), whole)
        if record["exit status"]:
            raise SystemExit(f"the uninterrupted run failed: see {whole}.log")
        log(record)
    interrupted.mkdir(exist_ok=True)
    words, total = command(interrupted, targets, options), saved(whole).total()
    for i in range(max(1, len(done)), 1 + len(KILLS)):
        record = call(words, interrupted, KILLS[i - 1], i / 4 * total)
        if "after" not in record:
            raise SystemExit(f"the call ended before it could be killed, {record}: see {interrupted}.log")
        log(record)
    record = call(words, interrupted)
    if record["exit status"]:
        raise SystemExit(f"the last call failed: see {interrupted}.log")
    log(record)
    found = differences(results(whole), results(interrupted), "")
    print("\n".join(found) or f"all {len(results(whole))} results are equal")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
