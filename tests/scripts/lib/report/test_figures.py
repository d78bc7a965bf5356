"""The pictures show the numbers they are given."""

import math

import pandas as pd
import pytest
from lib.report import figures


def test_a_heatmap_shows_values_and_leaves_blank_what_was_not_measured():
    cells = pd.Series({(1, 0.15): 2.784, (1, 0.5): 4.0, (2, 0.5): None})
    axes = figures.heatmap(cells, "entropy", 2).axes[0]
    assert [text.get_text() for text in axes.texts] == ["2.78", "4.00", "", ""]  # row by row
    assert [label.get_text() for label in axes.get_xticklabels()] == ["15%", "50%"]


def test_lines_are_told_apart_and_a_single_point_is_seen():
    points = [("MLM", 20, 4.0), ("MLM", 10, 2.0), ("MLM", 10, 3.0), ("two", 10, 3.0), ("three", 1, 1.0)]
    figure = figures.lines(pd.DataFrame(points, columns=["label", "x", "y"]), "loss", "updates")
    axes = figure.axes[0]
    first, second, third = axes.lines
    assert first.get_xydata().tolist() == [[10, 2.5], [20, 4]] and first.get_marker() == "None"
    assert second.get_xydata().tolist() == [[10, 3]] and second.get_marker() == "o"
    assert len({line.get_color() for line in axes.lines}) == 3
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["MLM", "two", "three"]
    band = axes.collections[0].get_paths()[0].vertices  # over seeds
    heights = band[band[:, 0] == 10][:, 1]
    assert (min(heights), max(heights)) == pytest.approx((2.5 - math.sqrt(0.5), 2.5 + math.sqrt(0.5)))
