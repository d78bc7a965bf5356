"""Baselines of table 1, on the same splits and with the same metrics as the models.

    python scripts/baseline_moleculenet.py forest data-bin/bbbp runs/forest/bbbp/seed-1 --seed 1
    python scripts/baseline_moleculenet.py dmpnn data-bin/bbbp runs/dmpnn/bbbp/seed-1 --seed 1

forest: random forests on Morgan fingerprints, one for each property. dmpnn: D-MPNN by the package chemprop,
with its defaults. Writes what scripts/finetune_moleculenet.sh writes: SAVE/{valid,test}.predictions.csv and
result.json.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import lib  # noqa: F401  (finds the environment)

# isort: split
import numpy as np
import pandas as pd
from lib.command_line import UserError, argument_parser, count, positive, script
from lib.files import RESULT, claim, locked
from lib.run.predictions import SPLITS, Split, write_results
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from fs_plugins.data.molecules import parse_molecule
from fs_plugins.data.property_info import PropertyInfo, read_folder

NAMES = {"forest": "random forest", "dmpnn": "D-MPNN"}
CHEMPROP = [sys.executable, "-c", "from chemprop.cli.main import main; main()"]


def fingerprints(smiles: list[str], allow_valence: bool) -> np.ndarray:
    """[N, 2048] uint8, of radius 2."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    return np.stack([generator.GetFingerprintAsNumPy(parse_molecule(s, allow_valence)) for s in smiles])


def forest(splits: dict[str, Split], info: PropertyInfo, **options) -> dict[str, np.ndarray]:
    """[N, properties] predictions of each split but "train": probabilities of class 1, or values.

    One forest for each property, on its labelled molecules. With labels of one class only, or none, a
    constant: that class, or 0.5.

    Args:
        options: of scikit-learn's forests.
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


def _chemprop(*words) -> None:
    result = subprocess.run([*CHEMPROP, *map(str, words)], stdout=2)  # standard error
    if result.returncode:
        raise UserError(f"chemprop {words[0]} ended with exit status {result.returncode}, see above")


def _is_read(smiles: str) -> bool:
    """Whether chemprop can read a molecule: it always applies RDKit's rules of valence."""
    try:
        parse_molecule(smiles)
    except ValueError:
        return False
    return True


def dmpnn(
    splits: dict[str, Split], info: PropertyInfo, seed: int, epochs: int, device: str
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """One model for all properties, of the epoch that was best on "valid".

    Args:
        device: lightning's, such as "cpu" or "auto".

    Returns:
        [N, properties] predictions of each split but "train", probabilities of class 1 or values; and how
        many molecules of each split chemprop cannot read: these are left out of the training, and predicted
        as the mean of the training labels.

    Raises:
        UserError: if chemprop fails; the reason is in its output.
    """
    kept = {name: np.array(list(map(_is_read, split.smiles)), bool) for name, split in splits.items()}
    mean = np.ma.masked_invalid(splits["train"].labels).mean(axis=0).filled(0.5)
    common = ["--accelerator", device, "--devices", 1, "--num-workers", 0, "--smiles-columns", "smiles"]
    frames = {}
    for name, split in splits.items():  # an empty cell is a missing label; properties may have any name
        frame = pd.DataFrame(split.labels)
        frame.insert(0, "smiles", split.smiles)
        frames[name] = frame[kept[name]].assign(part={"valid": "val"}.get(name, name))
        if unread := frame["smiles"][~kept[name]].tolist():
            done = "left out" if name == "train" else "predicted as the mean of the training labels"
            some = f"{len(unread)} of {len(frame)} molecules, such as {unread[0]}"
            print(f"{name}: chemprop cannot read {some}: {done}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        table, asked, answered = (folder / f"{name}.csv" for name in ("table", "asked", "answered"))
        # without the test set, which chemprop would score, and cannot if a property has no label there
        pd.concat([frames["train"], frames["valid"]]).to_csv(table, index=False, float_format="%.9g")
        _chemprop("train", "--data-path", table, "--splits-column", "part", "-t", info.kind, *common,
                  "--output-dir", folder / "model", "--epochs", epochs, "--warmup-epochs", min(2, epochs - 1),
                  "--pytorch-seed", seed, "--data-seed", seed)  # fmt: skip
        rows = pd.concat([frames[name] for name in SPLITS])
        rows[["smiles"]].to_csv(asked, index=False)
        best = folder / "model" / "model_0" / "best.pt"
        _chemprop("predict", "--test-path", asked, "--model-paths", best, "--preds-path", answered, *common)
        found = pd.read_csv(answered)[list(map(str, range(len(info.names))))].to_numpy(float)
    predictions = {name: np.tile(mean, (len(kept[name]), 1)) for name in SPLITS}
    ends = np.cumsum([kept[name].sum() for name in SPLITS])[:-1]
    for name, part in zip(SPLITS, np.split(found, ends), strict=True):
        predictions[name][kept[name]] = part
    return predictions, {name: int((~read).sum()) for name, read in kept.items()}


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("model", choices=sorted(NAMES))
    add("data", type=Path, help="a folder made by scripts/prepare_moleculenet.py")
    add("save", type=Path, help="the folder for the results")
    add("--seed", type=count, default=1, metavar="N", help="(default: 1)")
    add("--trees", type=positive, default=500, metavar="N", help="of each forest (default: 500)")
    add("--jobs", type=positive, default=1, metavar="N", help="cores of the forest (default: 1)")
    add("--max-epoch", type=positive, default=50, metavar="N", help="of D-MPNN (default: 50)")
    add("--cpu", action="store_true", help="train D-MPNN on the CPU (default: on a GPU if there is one)")
    args = parser.parse_args(argv)
    info = PropertyInfo.from_dict(read_folder(args.data))
    own = "trees" if args.model == "forest" else "max_epoch"
    settings = {name: getattr(args, name) for name in ("model", "seed", own)}
    splits = {name: Split.read(args.data, name) for name in ("train", *SPLITS)}
    inputs = {name: split.sha256 for name, split in splits.items()}
    if args.model == "dmpnn" and importlib.util.find_spec("chemprop") is None:
        raise UserError("D-MPNN needs the package chemprop: pip install -e '.[chemprop]'")
    with locked(args.save):
        claim(args.save, settings, inputs, sys.argv if argv is None else argv, (RESULT,))
        if (args.save / RESULT).exists():
            print(f"finished before: {args.save / RESULT}")
            return
        if args.model == "forest":
            options = {"n_estimators": args.trees, "random_state": args.seed, "n_jobs": args.jobs}
            predictions, more = forest(splits, info, **options), {}
        else:
            device = "cpu" if args.cpu else "auto"
            predictions, unread = dmpnn(splits, info, args.seed, args.max_epoch, device)
            more = {"unreadable": unread}
        print(write_results(args.save, args.data, NAMES[args.model], predictions, **more))


if __name__ == "__main__":
    sys.exit(main())
