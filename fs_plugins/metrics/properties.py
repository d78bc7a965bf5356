"""Metrics of predicted properties, over a whole split, in the labels' own units."""

import numpy as np
from sklearn.metrics import mean_absolute_error, roc_auc_score, root_mean_squared_error

CLASSIFICATION = {"auc": roc_auc_score}
REGRESSION = {"rmse": root_mean_squared_error, "mae": mean_absolute_error}


def by_property(predictions: np.ndarray, labels: np.ndarray, regression: bool) -> dict[str, np.ndarray]:
    """ROC-AUC (0 to 1), or RMSE and MAE, of each property over its labelled rows.

    Args:
        predictions: [N, properties]; for ROC-AUC any scores that rise with the probability of class 1.
        labels: [N, properties], NaN where there is no label; 0 and 1 unless ``regression``.

    Returns:
        ``auc``, or ``rmse`` and ``mae``: [properties] float64 each, NaN where there is no label, and for
        ROC-AUC where the labels are not of both classes.

    Raises:
        ValueError: if the prediction of a labelled row is NaN (a model that diverged).
    """
    metrics = REGRESSION if regression else CLASSIFICATION
    columns = {name: np.full(labels.shape[1], np.nan) for name in metrics}
    for i in range(labels.shape[1]):
        labelled = ~np.isnan(labels[:, i])
        truth, predicted = labels[labelled, i], predictions[labelled, i]
        if len(np.unique(truth)) >= (1 if regression else 2):
            for name, metric in metrics.items():
                columns[name][i] = metric(truth, predicted)
    return columns


def summarise(predictions: np.ndarray, labels: np.ndarray, regression: bool) -> dict[str, float]:
    """The unweighted means over those properties that have the metric.

    Returns:
        The metrics of :func:`by_property`, and ``scored_properties``, the number of those averaged. A metric
        is missing where no property has it.
    """
    columns = by_property(predictions, labels, regression)
    scored = ~np.isnan(next(iter(columns.values())))
    means = {name: float(column[scored].mean()) for name, column in columns.items()} if scored.any() else {}
    return {**means, "scored_properties": int(scored.sum())}
