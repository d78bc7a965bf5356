"""Pictures of predicted values against the labels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fs_plugins.files import atomic

MOST, COLUMNS, INCHES = 9, 3, 3.2  # properties in a picture, and in a row of it; the size of each
RIGHT = "0.6"  # the colour of the line on which predictions are right


def truth_against_prediction(
    names: Sequence[str], labels: np.ndarray, predictions: np.ndarray, about: str
) -> "Figure":  # noqa: F821
    """Returns a picture with a square for each of the first properties, of labels [N, properties], NaN where
    there is none, and predictions [N, properties]."""
    from matplotlib.figure import Figure  # here, as it logs to the terminal while fairseq is imported

    shown = [i for i in range(len(names)) if not np.isnan(labels[:, i]).all()][:MOST]
    columns = min(len(shown), COLUMNS) or 1
    rows = max(1, -(-len(shown) // columns))
    figure = Figure((INCHES * columns, INCHES * rows), layout="constrained", label=about)
    for place, i in enumerate(shown, start=1):
        truth, found = labels[~np.isnan(labels[:, i]), i], predictions[~np.isnan(labels[:, i]), i]
        axes = figure.add_subplot(rows, columns, place)
        axes.axline((truth[0], truth[0]), slope=1, color=RIGHT, lw=1)
        axes.plot(truth, found, "o", ms=3, alpha=0.5, mew=0)
        rmse = np.sqrt(np.mean((found - truth) ** 2))
        axes.set_title(f"{names[i]}: RMSE {rmse:.3g}, n = {len(truth)}", fontsize=9, parse_math=False)
        axes.set(xlabel="label", ylabel="prediction")
        ends = min(truth.min(), found.min()), max(truth.max(), found.max())
        axes.update_datalim([(end, end) for end in ends])  # the same on both
        axes.set_aspect("equal", "datalim")
    return figure


def write_picture(path: Path, figure) -> None:
    """Writes a PNG."""
    with atomic(path, "wb") as file:
        figure.savefig(file, format="png", dpi=160, metadata={"Software": None})
