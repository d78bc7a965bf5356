"""Metrics of GLUE, as scikit-learn and SciPy have them."""

from functools import partial

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

OF_CLASSES = {
    "accuracy": accuracy_score,
    "matthews": matthews_corrcoef,
    "f1": partial(f1_score, zero_division=0.0),
}
OF_NUMBERS = {"spearman": spearmanr, "pearson": pearsonr}


def score(metric: str, predictions, labels) -> float:
    """Returns a metric over a whole set.

    Args:
        metric: of OF_CLASSES or OF_NUMBERS; ``f1`` is that of class 1.
        predictions, labels: [N] classes; or numbers, finite ones, for a metric of OF_NUMBERS.

    Returns:
        A share or a correlation, not percent. If a correlation is not defined because the predictions are all
        the same, 0, which is also scikit-learn's value of Matthews'.

    Raises:
        ValueError: for sets that are empty or of different sizes.
    """
    predictions, labels = np.asarray(predictions), np.asarray(labels)
    if predictions.shape != labels.shape or predictions.ndim != 1 or not len(labels):
        raise ValueError(f"predictions {predictions.shape} of labels {labels.shape}: give two of one length")
    if metric in OF_CLASSES:
        return float(OF_CLASSES[metric](labels, predictions))
    if len(labels) < 2 or np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    return float(OF_NUMBERS[metric](predictions, labels)[0])
