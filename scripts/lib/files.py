"""What folders of results say of themselves: manifest.json, result.json, hashes, cells of tables.

A folder that a training or a preparation writes to records what it is made of in ``manifest.json``:

    settings   whatever the result depends on and a user chose, in JSON's types
    inputs     name -> SHA-256 of the data and the weights that it read; of a corpus, which may be too large
               for that, size and time of its last change
    command    how it was called; runs: the command behind it, if it is another; start: the model that it
               started from, if any; versions: of Python and of the packages that matter; commit: of this
               clone; workers: the numbers of processes, of all calls, that trained

and refuses to continue with other settings or inputs. SAVE/lock is held while a run is at work.
"""

import hashlib
import importlib.metadata
import json
import platform
import shlex
import subprocess
from collections.abc import Iterable
from glob import glob
from pathlib import Path

from fs_plugins.files import atomic, naming_errors, write_json
from lib.command_line import UserError, visible

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
MANIFEST = "manifest.json"
RESULT = "result.json"
PACKAGES = ("torch", "fairseq-fixed", "numpy")
BLOCK = 1 << 20  # bytes


def read_json(path: Path):
    """Returns the content of a JSON file; None if it does not exist. Raises ValueError if it is damaged."""
    with naming_errors(path):
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def files_below(folder: Path) -> list[Path]:
    """Returns the files in a folder and those below it, sorted, none that are hidden; links are followed, and
    each file is there once, by its shortest name."""
    names = sorted(glob("**", root_dir=folder, recursive=True), key=lambda name: (-name.count("/"), name))
    files = {(folder / name).resolve(): folder / name for name in names if (folder / name).is_file()}
    return sorted(files.values())


def sha256(*paths: Path, most: int | None = None) -> str:
    """Returns the SHA-256 of the contents of files, in their order; of a file with more than ``most`` bytes,
    that of its size and so many of its bytes, in blocks at equal distances."""
    digest = hashlib.sha256()
    for path in paths:
        size = path.stat().st_size
        with path.open("rb") as file:
            if most is None or size <= most:
                hashlib.file_digest(file, lambda: digest)
                continue
            digest.update(str(size).encode())
            for start in range(0, size, -(-size * BLOCK // most)):
                file.seek(start)
                digest.update(file.read(BLOCK))
    return digest.hexdigest()


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines atomically, each with ``\\n``."""
    with atomic(path) as file:
        file.writelines(f"{line}\n" for line in lines)


def plain_cell(text: str) -> str:
    """Returns a text with invalid UTF-8 and control characters escaped, and in quotes if a spreadsheet would
    evaluate it."""
    text = visible(text.encode(errors="backslashreplace").decode())
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def tsv_line(*cells) -> str:
    """Returns a line of plain cells, within which tabs and line breaks become spaces."""
    return "\t".join(plain_cell(" ".join(str(cell).split())) for cell in cells)


def check_same(folder: Path, there: dict, asked: dict, command: str = "") -> None:
    """Raises UserError if what a folder is made of is not what was asked for; the message names each
    difference, and the command that made it."""
    names = sorted(name for name in there.keys() | asked.keys() if there.get(name) != asked.get(name))
    if names:
        lines = [f"  {name}: there {there.get(name)!r}, asked {asked.get(name)!r}" for name in names]
        lines += [f"  the command there: {command}"] if command else []
        way_out = "choose another folder, or remove that one"
        raise UserError("\n".join([f"{folder} holds a run of other settings or data: {way_out}", *lines]))


def claim(
    folder: Path,
    settings: dict,
    inputs: dict[str, str],
    command: list[str],
    results: tuple[str, ...] = (),
    **more,
) -> None:
    """Records what a folder is made of (see above), or checks that it is made of the same; to be called by
    its holder. Raises UserError if the folder holds another run; the message names each difference.

    Args:
        results: patterns of files, the record aside, which show that a run got somewhere. If the folder has
            none of them, a different record in it is of a run that failed at once, and is replaced; if it
            has some but no record, they are somebody else's.
        more: further entries of the record.
    """
    if any(path.name != MANIFEST for pattern in results for path in folder.glob(pattern)):
        if (there := read_json(folder / MANIFEST)) is None:
            raise UserError(f"{folder} holds results without a {MANIFEST}: choose another folder")
        with naming_errors(folder / MANIFEST):
            made_of = {**there["settings"], **there["inputs"]}
        check_same(folder, made_of, {**settings, **inputs}, shlex.join(map(str, there["command"])))
        return
    record = {"settings": settings, "inputs": inputs, "command": command, **more}
    write_json(folder / MANIFEST, {**record, "versions": versions(), "commit": git_commit()})


def write_result(
    folder: Path, benchmark: str, task: str, metric: str, metrics: dict, run: Path | None = None, **more
) -> None:
    """Writes FOLDER/result.json of a fine-tuning or a baseline, the last of its files.

    ``{"benchmark", "task", "metric", "metrics", "seed", "checkpoint", "manifest", ...}``: the model that the
    training started from, null if none; the manifest of its folder.

    Args:
        benchmark: the name of its module, such as "glue".
        task: of those of the benchmark.
        metric: the name of the one that counts.
        metrics: split -> name -> number.
        run: the folder of the training (default: FOLDER).
        more: further entries.
    """
    manifest = read_json((run or folder) / MANIFEST) or {"settings": {}}
    about = {"benchmark": benchmark, "task": task, "metric": metric, "metrics": metrics}
    about |= {"seed": manifest["settings"].get("seed"), "checkpoint": manifest.get("start")}
    write_json(folder / RESULT, {**about, "manifest": manifest, **more})


DIGITS = 15  # digits written of a prediction: those that float64 keeps of any number


def digits(value: float | None) -> str:
    """Returns a metric as text, for messages; "none" where there is no such number."""
    return "none" if value is None else f"{value:.4g}"


def git_commit() -> str:
    """Returns the commit of this clone, with "+changes" if it has uncommitted ones; "unknown" outside a
    clone."""
    words = ["describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
    try:
        described = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True)
        return described.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages on which results depend."""
    packages = ((package.name, package.version) for package in importlib.metadata.distributions())
    return {
        "python": platform.python_version(),
        **{name: version for name, version in packages if name in PACKAGES},
    }
