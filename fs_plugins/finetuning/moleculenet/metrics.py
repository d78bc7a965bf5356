"""Metrics of predicted properties, over a whole split, in the labels' own units."""

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import (
    average_precision_score,
    matthews_corrcoef,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

# kind of property -> its metrics; the first counts, but for several regressions SCALED
METRICS = {
    "classification": ("auc", "prc_auc", "mcc"),
    "regression": ("rmse", "mae", "r2"),
}
SCALED = "scaled_rmse"  # the mean of RMSE / (standard deviation of the training labels): it has no unit
LESS_IS_BETTER = (SCALED, "rmse", "mae")


def metrics_of(kind: str, properties: int) -> tuple[str, ...]:
    """Returns the names of the metrics; the first chooses the best epoch, and is reported."""
    return (SCALED, *METRICS[kind]) if kind == "regression" and properties > 1 else METRICS[kind]


def by_property(
    predictions: np.ndarray, labels: np.ndarray, kind: str, threshold: float = 0.0
) -> dict[str, np.ndarray]:
    """Returns the METRICS of each property over its labelled rows, [properties] float64 each.

    ``auc`` is the area under the ROC curve, ``prc_auc`` average precision (the area under the curve of
    precision and recall), ``mcc`` Matthews' correlation.

    Args:
        predictions: [N, properties]; of classification any scores that rise with the probability of class 1.
        labels: [N, properties], NaN where there is no label; 0 and 1, or numbers.
        threshold: above it a score means class 1: 0 of logits, 0.5 of probabilities.

    Returns:
        NaN where there is no label, or not both classes; of R², where the labels are all the same.
    """
    columns = {name: np.full(labels.shape[1], np.nan) for name in METRICS[kind]}
    for i in range(labels.shape[1]):
        labelled = ~np.isnan(labels[:, i])
        truth, scores = labels[labelled, i], predictions[labelled, i]
        values = len(np.unique(truth))
        if kind == "regression" and values:
            columns["rmse"][i] = root_mean_squared_error(truth, scores)
            columns["mae"][i] = mean_absolute_error(truth, scores)
            columns["r2"][i] = r2_score(truth, scores) if values > 1 else np.nan
        elif kind == "classification" and values > 1:
            columns["auc"][i] = roc_auc_score(truth, scores)
            columns["prc_auc"][i] = average_precision_score(truth, scores)
            columns["mcc"][i] = matthews_corrcoef(truth, scores > threshold)
    return columns


def summarise(
    predictions: np.ndarray, labels: np.ndarray, kind: str, std: Sequence[float], threshold: float = 0.0
) -> dict[str, float]:
    """Returns the unweighted means over those properties that have the metric, by :func:`metrics_of`, and
    ``scored_properties``, how many these are. A metric is missing where no property has it. ``std`` of the
    training labels of each property is for SCALED; the rest is as of :func:`by_property`."""
    columns = by_property(predictions, labels, kind, threshold)
    scored = ~np.isnan(columns[METRICS[kind][0]])
    if kind == "regression":
        columns[SCALED] = columns["rmse"] / np.asarray(std)
    names = metrics_of(kind, labels.shape[1])
    means = {name: float(np.nanmean(columns[name])) for name in names if not np.isnan(columns[name]).all()}
    return {**means, "scored_properties": int(scored.sum())}
