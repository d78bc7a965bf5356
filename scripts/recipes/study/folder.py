"""The folder of a study: what it was made with, and one folder a run.

settings.json           size, data, configs: a folder never mixes two of them
lock                    held while a grid runs
data-bin/               smoke only, where no --data was given
runs/KEY/run.json       settings, seed, commands, commit, versions, attempts (wall and CPU seconds)
runs/KEY/train.log      fairseq's own log; metrics.jsonl: its figures
runs/KEY/checkpoint.pt  the last one, without optimizer state; checkpoints/ while the run is not finished
runs/KEY/train.json, entropy.json, probe.json, glue-TASK-sN.json: results, each there once its step is done
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import locking

ROOT = Path(__file__).resolve().parents[3]
OTHER_SETTINGS = "{} holds experiments of other settings: choose another folder, or remove that one\n"
PACKAGES = ("torch", "fairseq-fixed", "numpy")


class FolderError(Exception):
    """The folder cannot serve; the message says why and what to do."""


def write_json(path: Path, content) -> None:
    """Whole or not at all: a killed writer leaves no half of a file."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, path)


def read_json(path: Path):
    """None where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def fingerprint(paths) -> str:
    """Of the contents of files, in their order."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()[:16]


def read_flags(path: Path) -> list[str]:
    """The words of a flag file, without its comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [word for line in lines for word in line.split("#")[0].split()]


def configs_fingerprint(size: str, models) -> str:
    """Of the hyper-parameters that runs of a size depend on."""
    names = [
        "pretrain/table5",
        "finetune/table6",
        "finetune/recipe",
        f"size/{size}",
        *(f"model/{model}" for model in sorted(models)),
    ]
    words = [word for name in names for word in read_flags(ROOT / "configs" / f"{name}.flags")]
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]


def git_commit() -> str:
    """With "+changes" where the tree has uncommitted ones; "unknown" outside a clone."""

    def git(*command) -> str:
        result = subprocess.run(
            ["git", "-C", str(ROOT), *command], capture_output=True, text=True, check=True
        )
        return result.stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def check_data(data: Path) -> None:
    """Raises FolderError where a folder is not one of fairseq-preprocess with a train and a valid split."""
    if not data.is_dir():
        raise FolderError(f"--data {data}: there is no such folder")
    for name in ("dict.txt", "train.bin", "valid.bin"):
        if not (data / name).exists():
            raise FolderError(
                f"--data {data} has no {name}: give a folder that fairseq-preprocess --only-source made from "
                "a train and a valid text"
            )


def make(output: Path) -> None:
    """Makes the folder, which has to be there to be held.

    Raises:
        FolderError: if it cannot be written.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        if not os.access(output, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise FolderError(f"--output {output} cannot be written: {error.strerror}") from None


def prepare(output: Path, settings: dict) -> None:
    """Writes the settings of a study into its folder, or checks that it was made with the same.

    GLUE may be added to a folder that had none; all else has to be the same. To be called by who holds it.

    Raises:
        FolderError: if it holds a study of other settings.
    """
    (output / "runs").mkdir(parents=True, exist_ok=True)
    check_settings(output, settings)


def check_settings(output: Path, settings: dict) -> None:
    """Writes settings.json into a folder, or compares with the one that is there.

    Other settings take the place of those of a run that failed before it had trained anything.

    Raises:
        FolderError: if they differ.
    """
    there = read_json(output / "settings.json")
    if there is not None:
        names = settings.keys() | there.keys()
        other = sorted(
            n for n in names if there.get(n) != settings.get(n) and not (n == "glue" and not there.get(n))
        )
        if other and any(next(output.rglob(name), None) for name in ("*.pt", "result.json", "train.json")):
            lines = [f"  {n}: there {there.get(n)!r}, asked {settings.get(n)!r}" for n in other]
            raise FolderError(OTHER_SETTINGS.format(output) + "\n".join(lines))
    if there != settings:
        write_json(output / "settings.json", settings)


def locked(output: Path) -> AbstractContextManager[None]:
    """Holds a folder as long as a run goes on.

    Raises:
        FolderError: if another run holds it, or nothing can be written there.
    """
    return locking.locked(output / "lock", FolderError)
