"""OUTPUT/settings.json: what the workflow was asked for, so that results of other settings are never mixed.

``fixed`` has what all results have in common: settings, and the contents of the files that they depend on.
Snakemake's own record of parameters is in the working directory: it protects no output folder that was moved,
or that is written to from elsewhere.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace

from lib.command_line import Flags, UserError
from lib.files import CONFIGS, read_json, write_json
from lib.glue.tasks import TASKS
from lib.study import results

FILE = "settings.json"
RESULTS = ("*.pt", "train.json", "result.json")
SHOWN = ("size", "data", "glue", "runs_table", "moleculenet")  # of the settings, in the report
END = 1 << 20  # bytes of a file that count; at a checkpoint's end are the checksums of its tensors


def check(settings: SimpleNamespace, asked: list[str]) -> None:
    """Records the settings of targets, or of files of the output; to be called by the folder's holder.

    Raises:
        UserError: if the output holds results of other settings; the message names each difference.
    """
    path = Path(settings.output, FILE)
    there = read_json(path) or {"targets": [], "fixed": {}}
    names = [*settings.targets, results.STUDY, results.REPRODUCE]
    targets = [one for name in asked if name in names for one in results.targets_of(settings, name)]
    found, old = fixed_of(settings, targets), there["fixed"]
    if not any(next(path.parent.rglob(name), None) for name in RESULTS):
        old = {}  # of a call that failed at once
    if differing := sorted(name for name in found.keys() & old if old[name] != found[name]):
        raise UserError(
            f"{path.parent} holds results of other settings: choose another output, or remove them\n"
            + "\n".join(f"  {name}: there {old[name]!r}, asked {found[name]!r}" for name in differing)
        )
    about = {name: getattr(settings, name) or there.get(name) for name in SHOWN}
    for name in ("seeds", "finetune_seeds"):
        about[name] = list(dict.fromkeys([*there.get(name, []), *(getattr(settings, name) or [])]))
    if any(one.name == "table3" for one in targets):
        about["points"] = {task: len(results.grid(settings, task)) for task in (*TASKS, results.SQUAD)}
    shown = list(dict.fromkeys([*there["targets"], *(one.name for one in targets)]))
    write_json(path, {**there, **about, "targets": shown, "fixed": {**old, **found}})


def fixed_of(settings: SimpleNamespace, targets: list) -> dict[str, object]:
    """What may not differ between results; what was not asked for so far may be added."""
    found: dict[str, object] = {
        f"configs/{path.relative_to(CONFIGS)}": str(Flags.read(path))
        for form in ("flags", "grid")
        for path in sorted(CONFIGS.rglob(f"*.{form}"))
    }
    tables = {one.name for one in targets} & {"table1", "table3"}
    runs = [run for one in targets if not (settings.models and one.name in tables) for run in one.runs]
    files = {"squad": settings.squad, "smiles": settings.smiles}
    if settings.glue:
        files |= {f"glue {path.name}": path for path in Path(settings.glue).glob("*-bin")}
    if runs:
        found |= {name: getattr(settings, name) for name in ("size", "updates", "sentences", "flags")}
        found["rates"] = settings.rates and [*settings.rates, f"chosen by seed {settings.seeds[0]}"]
    if not all(run.of_molecules for run in runs):
        found["data"] = settings.data and fingerprint(Path(settings.data))
    if tables:
        found |= {name: getattr(settings, name) for name in ("finetune_flags", "max_epoch")}
        for name in ("models", "moleculenet"):
            files |= {f"{name} {one}": path for one, path in getattr(settings, name).items()}
    if "table3" in tables:
        only = {name: value for name, value in settings.only.items() if name in results.FLAGS.values()}
        found["grid"] = [settings.grid, only, f"chosen by seed {results.seeds(settings, 'table3')[0]}"]
        starts = {name: settings.init_from.get(name) for name in settings.models}
        found |= {f"start of {name}": one and fingerprint(Path(one)) for name, one in starts.items()}
    return found | {name: fingerprint(Path(path)) for name, path in files.items() if path}


def fingerprint(path: Path) -> str:
    """Of the names, sizes and ends of a folder's files, or of a file."""
    digest = hashlib.sha256()
    for one in sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]:
        size = one.stat().st_size
        digest.update(f"{one.relative_to(path)} {size}\n".encode())
        with one.open("rb") as file:
            file.seek(max(0, size - END))
            digest.update(file.read())
    return digest.hexdigest()
