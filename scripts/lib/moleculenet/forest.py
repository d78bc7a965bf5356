"""Random forests on Morgan fingerprints."""

from __future__ import annotations

import numpy as np
from rdkit.Chem import rdFingerprintGenerator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from fs_plugins.data.molecules import parse_molecule
from fs_plugins.data.property_info import PropertyInfo


def fingerprints(smiles: list[str], allow_valence: bool) -> np.ndarray:
    """[N, 2048] uint8, of radius 2."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    return np.stack([generator.GetFingerprintAsNumPy(parse_molecule(s, allow_valence)) for s in smiles])


def fit_and_predict(
    smiles: dict[str, list[str]], labels: np.ndarray, info: PropertyInfo, **options
) -> dict[str, np.ndarray]:
    """[N, properties] predictions of each split: probabilities of class 1, or values.

    One forest for each property, on its labelled molecules. With labels of one class only, or none, a
    constant: that class, or 0.5.

    Args:
        smiles: of each split, and of "train".
        labels: [N, properties] of "train", NaN where one is missing.
        options: of scikit-learn's forests.
    """
    features = {split: fingerprints(found, info.allow_valence) for split, found in smiles.items()}
    train = features.pop("train")
    columns = []
    for truth in labels.T:
        labelled = ~np.isnan(truth)
        truth = truth[labelled]
        if len(np.unique(truth)) < 2:
            constant = float(truth[0]) if len(truth) else 0.0 if info.regression else 0.5
            columns.append({split: np.full(len(rows), constant) for split, rows in features.items()})
            continue
        forest = (RandomForestRegressor if info.regression else RandomForestClassifier)(**options)
        forest.fit(train[labelled], truth)
        if info.regression:
            columns.append({split: forest.predict(rows) for split, rows in features.items()})
        else:
            columns.append({split: forest.predict_proba(rows)[:, 1] for split, rows in features.items()})
    return {split: np.stack([column[split] for column in columns], axis=1) for split in features}
