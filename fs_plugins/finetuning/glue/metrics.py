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
    """Returns a metric over a whole set, a share or a correlation, not percent.

    Args:
        metric: of OF_CLASSES or OF_NUMBERS; ``f1`` is that of class 1. A correlation that is not defined
            because the predictions are all the same is 0, which is also scikit-learn's value of Matthews'.
        predictions, labels: [N] classes; or numbers, finite ones, for a metric of OF_NUMBERS.
    """
    if metric in OF_CLASSES:
        return float(OF_CLASSES[metric](labels, predictions))
    if len(labels) < 2 or np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return 0.0
    return float(OF_NUMBERS[metric](predictions, labels)[0])
