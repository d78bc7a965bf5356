"""What the workflow's output folder is made of, so that results of different settings are never mixed.

    OUTPUT/study.json               size, data, seeds, targets ... of the study
    OUTPUT/table3/NAME/model.json   checkpoint, data, grid, seeds ... of a model of table 3
    OUTPUT/table1/NAME/model.json   checkpoint, sets, seeds ... of a model of table 1

Under "fixed" each has what all results beside it have in common.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lib.command_line import UserError
from lib.files import read_json, sha256, write_json
from lib.flags import Flags
from lib.folders import CONFIGS
from lib.study import outputs
from lib.study.settings import Settings


@dataclass(frozen=True)
class Record:
    """A record of a folder.

    Attributes:
        path: the file.
        about: what may differ from one call to the next.
        fixed: what may not, once there are results.
        results: patterns of the results.
    """

    path: Path
    about: dict
    fixed: dict
    results: tuple[str, ...]

    def check(self) -> None:
        """Raises UserError if the folder has results of other settings; GLUE may be added to a study."""
        lines = self._differences(read_json(self.path) or {"fixed": {}})
        if lines and any(next(self.path.parent.glob(pattern), None) for pattern in self.results):
            raise UserError(
                f"{self.path.parent} holds results of other settings: choose another output, or remove that "
                "folder\n" + "\n".join(lines)
            )

    def write(self) -> None:
        """Writes it, together with what earlier calls with the same fixed settings recorded."""
        there = read_json(self.path) or {"fixed": {}}
        record = {**self.about, "fixed": self.fixed}
        if not self._differences(there):
            asked = {name: value for name, value in record.items() if value is not None}
            record = {**record, **there, **asked, "fixed": {**there["fixed"], **self.fixed}}
            for name in {"targets", "seeds"} & there.keys():
                record[name] = list(dict.fromkeys([*there[name], *record[name]]))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if record != there:
            write_json(self.path, record)

    def _differences(self, there: dict) -> list[str]:
        return [
            f"  {name}: there {old!r}, asked {self.fixed.get(name)!r}"
            for name, old in there["fixed"].items()
            if self.fixed.get(name, old) != old and not (name == "glue" and old is None)
        ]


def records(settings: Settings, targets: Iterable[str]) -> list[Record]:
    """The records of all that some targets write to."""
    targets = set(targets)
    found = []
    if study := outputs.study_targets(settings, targets):
        found.append(_study(settings, study))
    if "table3" in targets:
        found += _table3(settings)
    if "table1" in targets:
        found += _table1(settings)
    return found


def _study(settings: Settings, targets: list[str]) -> Record:
    data = settings.pretraining_data()
    about = {
        "size": settings.size,
        "data": str(data),
        "glue": settings.glue and str(settings.glue),
        "seeds": list(settings.seeds),
        "targets": targets,
        "runs_table": settings.runs_table and str(settings.runs_table),
    }
    fixed = {
        "size": settings.size,
        "dictionary": settings.data and sha256(data / "dict.txt"),
        "tokens": settings.data and [(data / f"{split}.bin").stat().st_size for split in ("train", "valid")],
        "glue": about["glue"],
        **_configs_hashes(settings, targets),
        "flags": settings.flags,
        "updates": settings.updates,
        "sentences": settings.sentences,
        "rates": [*settings.rates, f"chosen by seed {settings.seeds[0]}"] if settings.rates else None,
    }
    return Record(
        settings.output / "study.json", about, fixed, ("study/*/*/*/train.json", "study/*/*/*/*.pt")
    )


def _configs_hashes(settings: Settings, targets: Iterable[str]) -> dict[str, str]:
    """Of the hyper-parameters that the targets' runs of a size depend on."""
    models = sorted({run.model for name in targets for run in settings.experiments[name].runs})
    shared = ("pretrain/table5", "finetune/table6", "finetune/recipe", f"size/{settings.size}")
    files = {f"configs of size {settings.size}": shared}
    files |= {f"configs of {model}": (f"model/{model}",) for model in models}
    return {
        name: hashlib.sha256(
            "\n".join(str(Flags.read(CONFIGS / f"{part}.flags")) for part in parts).encode()
        ).hexdigest()
        for name, parts in files.items()
    }


def _table3(settings: Settings) -> list[Record]:
    tasks, seeds = outputs.table3_tasks(settings), list(settings.of_finetuning(outputs.GLUE_SEEDS))
    glue: dict = {}
    if settings.glue:
        glue = {
            "grid": settings.grid,
            "only": settings.only,
            "first seed": seeds[0],
            "flags of GLUE": settings.flags,
        }
    for task in tasks:
        inputs = settings.glue / f"{task}-bin"
        glue[f"data of {task}"] = sha256(*(path for path in sorted(inputs.rglob("*")) if path.is_file()))
    squad: dict = {}
    if settings.squad:
        squad = {"flags of SQuAD": settings.flags, "max_epoch": settings.max_epoch}
    found = []
    for name, checkpoint in outputs.models_of(settings, "table3").items():
        start = settings.init_from.get(name)
        about = {
            "name": name,
            "checkpoint": str(checkpoint),
            "data": settings.glue and str(settings.glue),
            "squad": settings.squad and str(settings.squad),
            "init_from": start and str(start),
            "tasks": tasks or None,
            "grid": settings.grid if settings.glue else None,
            "only": settings.only if settings.glue else None,
            "seeds": seeds,
        }
        fixed = {"checkpoint": sha256(checkpoint), **glue, **squad}
        if settings.glue:
            fixed["init_from"] = sha256(start) if start else None
        path = settings.output / "table3" / name / "model.json"
        found.append(Record(path, about, fixed, ("glue/*/*/*/result.json", "squad/*/scores.json")))
    return found


def _table1(settings: Settings) -> list[Record]:
    found = []
    for name, checkpoint in outputs.table1_models(settings).items():
        trained = checkpoint is not None
        about = {
            "name": name,
            "checkpoint": str(checkpoint) if trained else None,
            "data": {data: str(folder) for data, folder in settings.moleculenet.items()},
            "seeds": list(settings.of_finetuning(outputs.MOLECULE_SEEDS)),
        }
        fixed = {f"data of {data}": sha256(f / "molecules.json") for data, f in settings.moleculenet.items()}
        if trained:
            fixed["checkpoint"] = sha256(checkpoint)
            fixed |= {"flags": settings.flags, "max_epoch": settings.max_epoch}
        path = settings.output / "table1" / name / "model.json"
        found.append(Record(path, about, fixed, ("*/*/metrics.json",)))
    return found
