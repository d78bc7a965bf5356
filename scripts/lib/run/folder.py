"""The folder of a training: made that of one run, while this script's caller holds its lock.

    python -m lib.run.folder SAVE < RECORD    with SAVE/lock open as file descriptor 9

RECORD is JSON, of ``Training.record``. Says what there is to say if the run was finished before.
"""

import fcntl
import json
import os
import sys
import time
from pathlib import Path

from lib.command_line import UserError, script
from lib.files import MANIFEST, RESULT, claim, read_json

from fs_plugins.files import LOCK_SECONDS, copy, write_json

LOCK, IMPORTED = 9, "imported.pt"
RESULTS = ("*.pt", "*.json")  # results of any training


def hold(save: Path) -> None:
    """Locks the folder for as long as the caller, or whatever it starts, has the file open."""
    deadline = time.monotonic() + LOCK_SECONDS  # for a run that is ending
    while True:
        try:
            return fcntl.flock(LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise UserError(f"another run is at work in {save}: wait for it, or stop it") from None
            time.sleep(0.1)
        except OSError as error:
            raise UserError(f"{save} is on a file system without locks ({error}); choose another") from None


def is_held(save: Path) -> bool:
    """Returns whether the caller of this process holds the folder's lock: its training evaluates itself."""
    try:
        return os.path.samestat(os.fstat(LOCK), os.stat(save / "lock"))
    except OSError:
        return False


def take(save: Path, record: dict) -> str:
    """Writes or checks SAVE/manifest.json (see ``claim``), and prepares the folder. Returns a message if the
    training is finished."""
    if {path.name for path in save.glob("*.pt")} == {IMPORTED} and (save / MANIFEST).exists():
        (save / IMPORTED).unlink()  # left by a run that failed at once
    dictionary, inputs = Path(record["dictionary"] or ""), record["inputs"]
    if record["dictionary"]:
        from fs_plugins.data.vocabulary import DICT_FILE, Vocabulary  # imports fairseq

        vocabulary, kept = Vocabulary.read(dictionary), save / DICT_FILE
        if kept.is_file() and any(save.glob("*.pt")):
            vocabulary.check(Vocabulary.read(kept), "choose another SAVE, or the data of its run")
        inputs[DICT_FILE] = vocabulary.identity
    start, workers = record["start"], record["workers"]
    about = {"runs": record["runs"], "start": start, "workers": [workers]}
    claim(save, record["settings"], inputs, record["command"], RESULTS, **about)
    manifest = read_json(save / MANIFEST)
    if workers not in manifest["workers"]:
        write_json(save / MANIFEST, {**manifest, "workers": sorted([*manifest["workers"], workers])})
    for path in save.glob("checkpoint*.pt.[0-9]*.tmp"):  # left by a run that was killed
        path.unlink()
    if record["dictionary"]:
        copy(dictionary, kept)
    if record["evaluated"] and (save / RESULT).exists():
        return f"finished before: {save / RESULT} has its scores; to train it again, remove that"
    if start and Path(start).is_dir() and not (save / IMPORTED).is_file():
        from fs_plugins.checkpoint import write_checkpoint  # imports torch

        write_checkpoint(Path(start), save / IMPORTED)
    return ""


@script
def main() -> None:
    save = Path(sys.argv[1])
    hold(save)
    print(take(save, json.load(sys.stdin)), end="")
