"""The pictures show the numbers they are given."""

import math

import pytest
from lib.report import figures
from lib.report.tables import Value


def test_a_heatmap_shows_values_and_leaves_blank_what_was_not_measured():
    axes = figures.heatmap({(1, 0.15): 2.784, (1, 0.5): 4.0, (2, 0.5): None}, "entropy", 2).axes[0]
    assert [text.get_text() for text in axes.texts] == ["2.78", "4.00", "", ""]  # row by row
    assert [label.get_text() for label in axes.get_xticklabels()] == ["15%", "50%"]
    assert figures.picture(figures.heatmap({(1, 0.15): None}, "none", 1)).startswith(b"\x89PNG")


def test_lines_are_told_apart_and_a_single_point_is_seen():
    values = {"one": {20: Value((4.0,)), 10: Value((2.0, 3.0))}, "two": {10: Value((3.0,))}, "none": {}}
    figure = figures.lines(values, "loss", "updates", xscale="log", better="lower")
    axes = figure.axes[0]
    first, second = axes.lines
    assert first.get_xydata().tolist() == [[10, 2.5], [20, 4]] and first.get_marker() == "None"
    assert second.get_xydata().tolist() == [[10, 3]] and second.get_marker() == "o"
    assert first.get_color() != second.get_color()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two"]
    assert axes.get_ylabel() == "loss (lower is better)"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear") and len(axes.collections) == 2
    band = axes.collections[0].get_paths()[0].vertices  # over seeds
    heights = band[band[:, 0] == 10][:, 1]
    assert (min(heights), max(heights)) == pytest.approx((2.5 - math.sqrt(0.5), 2.5 + math.sqrt(0.5)))
