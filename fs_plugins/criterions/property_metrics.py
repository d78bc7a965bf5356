"""Metrics of predicted properties, over a whole split, in the labels' own units."""

import numpy as np
from sklearn.metrics import mean_absolute_error, mean_squared_error, roc_auc_score


def roc_auc_scores(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """ROC-AUC of each property over its labelled rows.

    Args:
        scores: [N, properties]; any that rises with the probability of class 1.
        labels: [N, properties], 0, 1 or NaN.

    Returns:
        [properties] float64 between 0 and 1; NaN where the labels are not of both classes.

    Raises:
        ValueError: if a score of a labelled row is NaN (a model that diverged).
    """
    result = np.full(labels.shape[1], np.nan)
    for i in range(labels.shape[1]):
        labelled = ~np.isnan(labels[:, i])
        truth = labels[labelled, i]
        if (truth == 0).any() and (truth == 1).any():
            result[i] = roc_auc_score(truth, scores[labelled, i])
    return result


def regression_errors(predictions: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """RMSE and MAE of each property over its labelled rows, [properties] each; NaN where there are none."""
    rmse, mae = np.full((2, labels.shape[1]), np.nan)
    for i in range(labels.shape[1]):
        labelled = ~np.isnan(labels[:, i])
        if labelled.any():
            truth, predicted = labels[labelled, i], predictions[labelled, i]
            rmse[i] = np.sqrt(mean_squared_error(truth, predicted))
            mae[i] = mean_absolute_error(truth, predicted)
    return rmse, mae


def summarise(predictions: np.ndarray, labels: np.ndarray, regression: bool) -> dict[str, float]:
    """The unweighted means over those properties that have the metric.

    Returns:
        ``auc`` (0 to 1) or ``rmse`` and ``mae``, and ``scored_properties``, the number of those averaged.
        The metric is missing where no property has it.
    """
    if regression:
        rmse, mae = regression_errors(predictions, labels)
        columns = {"rmse": rmse, "mae": mae}
    else:
        columns = {"auc": roc_auc_scores(predictions, labels)}
    scored = ~np.isnan(next(iter(columns.values())))
    means = {name: float(column[scored].mean()) for name, column in columns.items()} if scored.any() else {}
    return {**means, "scored_properties": int(scored.sum())}
