"""Random forests on Morgan fingerprints."""

from __future__ import annotations

import numpy as np
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from fs_plugins.data.molecules import parse_molecule
from fs_plugins.data.property_info import PropertyInfo
from lib.moleculenet.evaluate import Split


def fingerprints(smiles: list[str], allow_valence: bool) -> np.ndarray:
    """[N, 2048] uint8, of radius 2."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    return np.stack([generator.GetFingerprintAsNumPy(parse_molecule(s, allow_valence)) for s in smiles])


def fit_and_predict(splits: dict[str, Split], info: PropertyInfo, **options) -> dict[str, np.ndarray]:
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
            forest = (RandomForestRegressor if info.regression else RandomForestClassifier)(**options)
            forest.fit(train[labelled], truth)
        for name, rows in features.items():
            if constant:
                predictions[name][:, i] = truth[0] if len(truth) else 0.0 if info.regression else 0.5
            elif info.regression:
                predictions[name][:, i] = forest.predict(rows)
            else:
                predictions[name][:, i] = forest.predict_proba(rows)[:, 1]
    return predictions
