"""The pictures show the numbers they are given."""

import math

import pytest
from lib import figures
from lib.tables import Value


def test_a_heatmap_shows_values_and_leaves_blank_what_was_not_measured():
    axes = figures.heatmap({(1, 0.15): 2.784, (1, 0.5): 4.0, (2, 0.5): None}, "entropy", 2).axes[0]
    assert [text.get_text() for text in axes.texts] == ["2.78", "4.00", "", ""]  # row by row
    assert [label.get_text() for label in axes.get_xticklabels()] == ["15%", "50%"]
    assert figures.png(figures.heatmap({(1, 0.15): None}, "none", 1)).startswith(b"\x89PNG")


def test_lines_are_told_apart_and_a_single_point_is_seen():
    values = {"one": {10: Value((5.0,)), 20: Value((4.0,))}, "two": {10: Value((3.0,))}, "none": {}}
    figure = figures.lines(values, "loss", "updates", band=True, xscale="log")
    axes = figure.axes[0]
    first, second = axes.lines
    assert first.get_xydata().tolist() == [[10, 5], [20, 4]] and first.get_marker() == "None"
    assert second.get_xydata().tolist() == [[10, 3]] and second.get_marker() == "o"
    assert first.get_color() != second.get_color()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear") and len(axes.collections) == 2


def test_lines_have_bars_over_seeds():
    values = {"MLM": {50: Value((4.0,)), 15: Value((2.0, 3.0))}, "ExLM": {}}
    [container] = figures.lines(values, "entropy", "p, %").axes[0].containers
    assert container[0].get_xydata().tolist() == [[15, 2.5], [50, 4]]
    spread = math.sqrt(0.5)
    first = container[2][0].get_segments()[0]
    assert first[:, 1].tolist() == pytest.approx([2.5 - spread, 2.5 + spread])


def test_dots_of_a_median_have_the_range_as_bars():
    ours = {"$mine_1 (ours)": {"RTE": Value((60.0, 61.0, 70.0), median=True)}}
    figure = figures.dots({"ExLM": {"CoLA": Value((64.6,)), "RTE": Value((78.8,))}, **ours}, "Table 3")
    paper, container = figure.axes[0].containers
    assert paper[0].get_xydata()[:, 1].tolist() == [64.6, 78.8]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["CoLA", "RTE"]
    [[x, y]] = container[0].get_xydata().tolist()
    assert round(x) == 1 and y == 61.0  # of RTE
    assert sorted(container[2][0].get_segments()[0][:, 1]) == [60.0, 70.0]
    figures.png(figure)  # a dollar in a name is no formula
