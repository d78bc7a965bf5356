"""The baseline of table 1: random forests on Morgan fingerprints, one for each property, on the splits and by
the metrics of the models.

    python scripts/baseline_moleculenet.py data-bin/bbbp runs/forest/bbbp/seed-1 --seed 1

Writes what scripts/finetune_moleculenet.sh writes: SAVE/{valid,test}.predictions.csv and result.json.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from lib.command_line import argument_parser, count, positive, script
from lib.files import MANIFEST, RESULT
from lib.moleculenet import SPLITS, read_split, write_results
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from fs_plugins.data.molecules import parse_molecule
from fs_plugins.files import check_absent, write_json
from fs_plugins.finetuning.moleculenet.data import read_folder
from fs_plugins.finetuning.outputs import PropertyInfo


def fingerprints(smiles: Iterable[str], allow_valence: bool) -> np.ndarray:
    """Returns Morgan fingerprints of radius 2, [N, 2048] uint8."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    return np.stack([generator.GetFingerprintAsNumPy(parse_molecule(s, allow_valence)) for s in smiles])


def predicted(
    train: np.ndarray, labels: np.ndarray, rows: np.ndarray, regression: bool, **options
) -> np.ndarray:
    """Returns values, or probabilities of class 1, [N] of fingerprints ``rows``, by a forest on the labelled
    ones of ``train``. With labels of one class only, or none, a constant: that class, or 0.5."""
    known = labels[~np.isnan(labels)]
    if len(np.unique(known)) < 2:
        return np.full(len(rows), known[0] if len(known) else 0.0 if regression else 0.5)
    model = (RandomForestRegressor if regression else RandomForestClassifier)(**options)
    model.fit(train[~np.isnan(labels)], known)
    return model.predict(rows) if regression else model.predict_proba(rows)[:, 1]


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("data", type=Path, help="a folder made by scripts/prepare_moleculenet.py")
    add("save", type=Path, help="the folder for the results")
    add("--seed", type=count, default=1, metavar="N", help="(default: 1)")
    add("--trees", type=positive, default=500, metavar="N", help="of each forest (default: 500)")
    args = parser.parse_args(argv)
    check_absent(args.save / RESULT)
    folder = read_folder(args.data)
    info = PropertyInfo.from_dict(folder)
    names = [name for name in ("train", *SPLITS) if name in folder["sizes"]]
    splits = {name: read_split(args.data, name, info.names) for name in names}
    train, *others = (
        fingerprints(split.index.get_level_values("smiles"), info.allow_valence) for split in splits.values()
    )
    options = {"n_estimators": args.trees, "random_state": args.seed}
    columns = (
        predicted(train, labels, np.concatenate(others), info.regression, **options)
        for labels in splits["train"].to_numpy().T
    )
    parts = np.split(np.stack([*columns], axis=1), np.cumsum([*map(len, others)])[:-1])
    outputs = dict(zip(names[1:], parts, strict=True))
    args.save.mkdir(parents=True, exist_ok=True)
    settings = {"model": "forest", "seed": args.seed, "trees": args.trees}
    write_json(args.save / MANIFEST, {"settings": settings, "inputs": {}, "runs": None})
    print(write_results(args.save, args.data, "random forest", outputs, args.save, info))
