"""The baseline of table 1: random forests on Morgan fingerprints, one for each property, on the splits and by
the metrics of the models.

    python scripts/baseline_moleculenet.py data-bin/bbbp runs/forest/bbbp/seed-1 --seed 1

Writes what scripts/finetune_moleculenet.sh writes: SAVE/{valid,test}.predictions.csv and result.json.
"""

import sys
from pathlib import Path

import lib  # noqa: F401  (finds the environment)
import numpy as np
from lib.command_line import argument_parser, count, positive, script
from lib.files import RESULT, claim, read_json, scores_of
from lib.moleculenet import SPLITS, LabelledSplit, write_results
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from fs_plugins.data.molecules import parse_molecule
from fs_plugins.files import locked
from fs_plugins.finetuning.moleculenet.data import read_folder
from fs_plugins.finetuning.outputs import PropertyInfo


def fingerprints(smiles: list[str], allow_valence: bool) -> np.ndarray:
    """Returns Morgan fingerprints of radius 2, [N, 2048] uint8."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    return np.stack([generator.GetFingerprintAsNumPy(parse_molecule(s, allow_valence)) for s in smiles])


def forest(splits: dict[str, LabelledSplit], info: PropertyInfo, **options) -> dict[str, np.ndarray]:
    """Returns predictions of each split but "train", [N, properties]: probabilities of class 1, or values.

    One forest of scikit-learn's for each property, with these options, on its labelled molecules. With labels
    of one class only, or none, a constant: that class, or 0.5.
    """
    features = {name: fingerprints(split.smiles, info.allow_valence) for name, split in splits.items()}
    train = features.pop("train")
    predictions = {name: np.empty((len(rows), len(info.names))) for name, rows in features.items()}
    for i, truth in enumerate(splits["train"].labels.T):
        labelled = ~np.isnan(truth)
        truth = truth[labelled]
        constant = len(np.unique(truth)) < 2
        if not constant:
            model = (RandomForestRegressor if info.regression else RandomForestClassifier)(**options)
            model.fit(train[labelled], truth)
        for name, rows in features.items():
            if constant:
                predictions[name][:, i] = truth[0] if len(truth) else 0.0 if info.regression else 0.5
            elif info.regression:
                predictions[name][:, i] = model.predict(rows)
            else:
                predictions[name][:, i] = model.predict_proba(rows)[:, 1]
    return predictions


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("data", type=Path, help="a folder made by scripts/prepare_moleculenet.py")
    add("save", type=Path, help="the folder for the results")
    add("--seed", type=count, default=1, metavar="N", help="(default: 1)")
    add("--trees", type=positive, default=500, metavar="N", help="of each forest (default: 500)")
    add("--jobs", type=positive, default=1, metavar="N", help="cores (default: 1)")
    args = parser.parse_args(argv)
    folder = read_folder(args.data)
    info = PropertyInfo.from_dict(folder)
    settings = {"model": "forest", "seed": args.seed, "trees": args.trees}
    splits = {
        name: LabelledSplit.read(args.data, name, info.names)
        for name in ("train", *SPLITS)
        if name in folder["sizes"]
    }
    inputs = {name: split.sha256 for name, split in splits.items()}
    with locked(args.save):
        claim(args.save, settings, inputs, sys.argv if argv is None else argv, (RESULT,))
        if (args.save / RESULT).exists():
            print(f"finished before: {args.save / RESULT} ({scores_of(read_json(args.save / RESULT))})")
            return
        options = {"n_estimators": args.trees, "random_state": args.seed, "n_jobs": args.jobs}
        predictions = forest(splits, info, **options)
        print(write_results(args.save, args.data, "random forest", predictions, args.save, info))
