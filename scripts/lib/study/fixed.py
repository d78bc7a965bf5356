"""OUTPUT/settings.json: what the workflow was asked for, so that results of other settings are never mixed.

``fixed`` has what all results of a part of the output (study, table1, table3) have in common: settings, and
the contents of the files that they depend on. Snakemake's own record of parameters is in the working
directory: it protects no output folder that was moved, or that is written to from elsewhere.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace

from lib.command_line import Flags, UserError
from lib.files import read_json, sha256, write_json
from lib.folders import CONFIGS
from lib.study import results
from lib.study.runs import GLUE_TASKS

FILE = "settings.json"
RESULTS = ("*.pt", "train.json", "result.json")
DEFAULT_SEEDS = {"table1": results.MOLECULE_SEEDS, "table3": results.GLUE_SEEDS}
SMALL = 1 << 20  # bytes; of larger files of a folder the size counts


def check(settings: SimpleNamespace, targets: list[str]) -> None:
    """Records the settings of targets, or of files of the output; to be called by the folder's holder.

    Raises:
        UserError: if the output holds results of other settings; the message names each difference.
    """
    path = Path(settings.output, FILE)
    there = read_json(path) or {"targets": [], "seeds": {}, "fixed": {}}
    parts = {next((one for one in DEFAULT_SEEDS if one in Path(name).parts), "study") for name in targets}
    fixed, seeds, lines = there["fixed"], there["seeds"], []
    for part in sorted(parts):
        found, old = fixed_of(settings, part, targets), fixed.get(part, {})
        if not any(next(path.parent.glob(f"{part}/**/{name}"), None) for name in RESULTS):
            old = {}  # of a call that failed at once
        lines += [
            f"  {n}: there {old[n]!r}, asked {found[n]!r}" for n in found.keys() & old if old[n] != found[n]
        ]
        fixed[part] = {**old, **found}
        asked = {part: settings.seeds if part == "study" else settings.finetune_seeds or DEFAULT_SEEDS[part]}
        if part == "study" and settings.glue:
            asked["glue"] = settings.finetune_seeds or results.STUDY_SEEDS
        for name, more in asked.items():
            seeds[name] = list(dict.fromkeys([*seeds.get(name, []), *more]))
    if lines:
        raise UserError(
            f"{path.parent} holds results of other settings: choose another output, or remove them\n"
            + "\n".join(sorted(lines))
        )
    known = settings.targets.values()
    names = [
        one.name for one in known if one.name in targets or results.STUDY in targets and one.of_the_paper
    ]
    about = {name: getattr(settings, name) for name in ("size", "data", "glue", "runs_table")}
    shown = list(dict.fromkeys([*there["targets"], *names]))
    write_json(path, {**there, **about, "targets": shown, "seeds": seeds, "fixed": fixed})


def fixed_of(settings: SimpleNamespace, part: str, targets: list[str]) -> dict[str, object]:
    """What may not differ between results of a part; what was not asked for so far may be added."""
    found: dict[str, object] = {
        "flags": settings.flags,
        "configs of fine-tuning": _configs("finetune/**/*.*"),
    }
    if part == "study":
        found |= {name: getattr(settings, name) for name in ("size", "updates", "sentences")}
        found["rates"] = settings.rates and [*settings.rates, f"chosen by seed {settings.seeds[0]}"]
        found["data"] = settings.data and fingerprint(Path(settings.data))
        found["configs of the size"] = _configs(f"pretrain/{settings.size}.flags")
        runs = [run for name in targets if name in settings.targets for run in settings.targets[name].runs]
        found |= {
            f"configs of {model}": _configs(f"model/{model}.flags") for model in {run.model for run in runs}
        }
        tasks = GLUE_TASKS if settings.glue else ()
    else:
        found["max_epoch"] = settings.max_epoch
        found |= {f"model {name}": sha256(Path(one)) for name, one in settings.models.items()}
        tasks = results.glue_tasks(settings) if part == "table3" else ()
    if part == "table1":
        found |= {f"data of {name}": fingerprint(Path(one)) for name, one in settings.moleculenet.items()}
    elif part == "table3":
        starts = {name: settings.init_from.get(name) for name in settings.models}
        found |= {
            f"start of {name}": one and sha256(Path(one)) for name, one in starts.items() if settings.glue
        }
        if settings.squad:
            found["squad"] = fingerprint(Path(settings.squad))
        if settings.glue:
            seed = (settings.finetune_seeds or results.GLUE_SEEDS)[0]
            found["grid"] = [settings.grid, settings.only, f"chosen by seed {seed}"]
    found |= {f"data of {task}": fingerprint(Path(settings.glue, f"{task}-bin")) for task in tasks}
    return found


def fingerprint(folder: Path) -> str:
    """Of the names and sizes of a folder's files, and of the contents of the small ones."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder)} {size}\n".encode())
        digest.update(path.read_bytes() if size < SMALL else b"")
    return digest.hexdigest()


def _configs(*patterns: str) -> str:
    """Of the flags in configuration files, whatever their comments."""
    paths = sorted(path for pattern in patterns for path in CONFIGS.glob(pattern))
    return hashlib.sha256("\n".join(str(Flags.read(path)) for path in paths).encode()).hexdigest()
