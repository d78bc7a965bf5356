"""What fs_plugins.analysis measures of a finished pre-training: OUTPUT/study/.../MEASURE.json."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from lib.files import read_json
from lib.folders import MANIFEST
from lib.study.runs import ATOMS, CURVE, ENTROPY, FILLING, JOINT, PROBE, PROBE_RATIO, USE_OF_STATES, Run

NO_PATHS = ("mlm", "repeated-mlm", "exlm-no-transitions")  # models whose states are on no path
CURVE_SAMPLES = 200


@dataclass(frozen=True)
class Measure:
    """A command of fs_plugins.analysis.

    Attributes:
        module: its name.
        options: of the command; {p} is the share of masked words that the model was trained with, {ratios}
            that and 15%.
        sentences: whether it takes the study's number of sentences, not its own.
        over_training: whether it takes all checkpoints that are there, not the last alone.
        molecules: whether the data have to be molecules.
        paths: whether the model has to have transitions.
    """

    module: str
    options: str = "--mask-prob {p}"
    sentences: bool = False
    over_training: bool = False
    molecules: bool = False
    paths: bool = False


MEASURES = {
    ENTROPY: Measure("corpus_entropy", "", sentences=True),
    PROBE: Measure("probe", "--mask-prob {ratios}", sentences=True),
    CURVE: Measure("probe", f"--mask-prob {{p}} --max-sentences {CURVE_SAMPLES}", over_training=True),
    JOINT: Measure("joint_likelihood", sentences=True),
    FILLING: Measure("filling", molecules=True),
    ATOMS: Measure("atom_probe", "", molecules=True),
    USE_OF_STATES: Measure("use_of_states", over_training=True, paths=True),
}


def applies(name: str, run: Run, data: Path | None) -> bool:
    """Whether a run has a measure: molecules have more, and a model without paths fewer."""
    measure = MEASURES[name]
    manifest = (read_json(data / MANIFEST) if data is not None else None) or {"settings": {}}
    if measure.molecules and "smiles" not in manifest["settings"]:  # --smiles of prepare_smiles.py
        return False
    return not (measure.paths and run.model in NO_PATHS)


def command(name: str, run: Run, sentences: int, folder: str) -> str:
    """The module of a measure, and its arguments but for the data and the output.

    Args:
        folder: of the run, whose checkpoints follow the module: --mask-prob takes all that follows it.
    """
    measure = MEASURES[name]
    ratios = sorted({PROBE_RATIO, run.own_ratio})
    options = measure.options.format(p=run.own_ratio, ratios=" ".join(map(str, ratios)))
    if measure.sentences:
        options += f" --max-sentences {sentences}"
    checkpoints = "checkpoint_*.pt" if measure.over_training else "checkpoint_last.pt"
    return f"fs_plugins.analysis.{measure.module} {shlex.quote(folder)}/{checkpoints} {options}".strip()
