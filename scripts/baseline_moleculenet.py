"""A random forest on Morgan fingerprints, on the same splits and with the same metrics as the models.

    python scripts/baseline_moleculenet.py data/bbbp runs/forest/bbbp

One forest for each property, on its labelled molecules; three seeds. Writes what
scripts/finetune_moleculenet.sh writes: SAVE/seed-N/{valid,test}.predictions.csv and metrics.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from rdkit.Chem import rdFingerprintGenerator
from recipes.command_line import RecipeError
from recipes.files import write_json
from recipes.moleculenet.evaluate import SPLITS, read_split, rows_sha256, split_metrics, write_predictions
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from fs_plugins.data.molecules import parse_molecule
from fs_plugins.data.property_info import PropertyInfo, read_folder


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("data", type=Path, help="a folder made by scripts/prepare_moleculenet.py")
    add("save", type=Path, help="the folder for the results; finished seeds are skipped")
    add("--seeds", type=int, nargs="+", default=[1, 2, 3])
    add("--trees", type=int, default=500, metavar="N", help="of each forest (default: 500)")
    add("--radius", type=int, default=2, help="of the fingerprints (default: 2)")
    add("--bits", type=int, default=2048, help="of the fingerprints (default: 2048)")
    add("--jobs", type=int, default=1, metavar="N", help="cores (default: 1)")
    return parser.parse_args(argv)


def fingerprints(smiles: list[str], allow_valence: bool, radius: int, bits: int) -> np.ndarray:
    """[N, bits] uint8."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=radius, fpSize=bits)
    return np.stack([generator.GetFingerprintAsNumPy(parse_molecule(s, allow_valence)) for s in smiles])


def fit_and_predict(
    features: np.ndarray, labels: np.ndarray, wanted: dict[str, np.ndarray], regression: bool, **options
) -> dict[str, np.ndarray]:
    """Predictions [N] for each split: probabilities of class 1, or values.

    With labels of one class only, or none, a constant: that class, or 0.5.
    """
    labelled = ~np.isnan(labels)
    truth = labels[labelled]
    if len(np.unique(truth)) < 2:
        constant = float(truth[0]) if len(truth) else 0.0 if regression else 0.5
        return {split: np.full(len(rows), constant) for split, rows in wanted.items()}
    forest = (RandomForestRegressor if regression else RandomForestClassifier)(**options)
    forest.fit(features[labelled], truth)
    if regression:
        return {split: forest.predict(rows) for split, rows in wanted.items()}
    return {split: forest.predict_proba(rows)[:, 1] for split, rows in wanted.items()}


def refuse_others(path: Path, settings: dict) -> None:
    """Raises RecipeError if the results in ``path`` are of other settings or data than ``settings``."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        other = {key: found.get(key) for key, value in settings.items() if found.get(key) != value}
    except (ValueError, AttributeError) as error:
        raise RecipeError(f"{path} is damaged ({error!r}): remove it") from error
    if other:
        shown = ", ".join(f"{key} {value}, now {settings[key]}" for key, value in other.items())
        raise RecipeError(
            f"{path} is of other settings or data ({shown}): choose another SAVE, or remove {path.parent}"
        )


def run(args: argparse.Namespace) -> None:
    folder = read_folder(args.data)
    info = PropertyInfo.from_dict(folder)
    tables = {split: read_split(args.data, split, info) for split in ("train", *SPLITS)}
    features = {
        split: fingerprints([row[1] for row in rows], info.allow_valence, args.radius, args.bits)
        for split, (rows, _) in tables.items()
    }
    settings = {"dataset": folder["dataset"], "model": "random forest", "kind": info.kind}
    settings |= {"trees": args.trees, "radius": args.radius, "bits": args.bits, "split": folder["split"]}
    settings["train_rows_sha256"] = rows_sha256(*tables["train"])
    for seed in args.seeds:
        target = args.save / f"seed-{seed}"
        if (target / "metrics.json").exists():
            refuse_others(target / "metrics.json", settings)
            print(f"seed {seed}: finished before, {target / 'metrics.json'}")
            continue
        columns = [
            fit_and_predict(
                features["train"],
                tables["train"][1][:, i],
                {split: features[split] for split in SPLITS},
                info.regression,
                n_estimators=args.trees,
                random_state=seed,
                n_jobs=args.jobs,
            )
            for i in range(len(info.names))
        ]
        target.mkdir(parents=True, exist_ok=True)
        metrics = {}
        for split in SPLITS:
            predictions = np.stack([column[split] for column in columns], axis=1)
            rows, labels = tables[split]
            metrics[split] = split_metrics(predictions, labels, info)
            metrics[split]["rows_sha256"] = rows_sha256(rows, labels)
            write_predictions(target / f"{split}.predictions.csv", rows, predictions, labels, info.names)
        write_json(target / "metrics.json", {**settings, "seed": seed, **metrics})
        metric = "rmse" if info.regression else "auc"
        print(f"seed {seed}: " + ", ".join(f"{s} {metric} {metrics[s].get(metric)}" for s in SPLITS))


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    try:
        run(args)
    except (RecipeError, ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
