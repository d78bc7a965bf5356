"""The pictures show the numbers they are given."""

import math

import pytest
from lib import figures
from lib.tables import Value

KS, PS = (1, 2), (0.15, 0.5)


def texts(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_a_heatmap_shows_values_and_tells_blank_from_impossible():
    cells = {(1, 0.15): 2.784, (1, 0.5): 4.0, (2, 0.5): None}
    figure = figures.heatmap(cells, "entropy", 2, KS, PS)
    assert sorted(texts(figure)) == ["2.78", "4.00"]
    faces = [patch.get_facecolor()[:3] for patch in figure.axes[0].patches]  # row by row
    assert faces[2] == (0.85, 0.85, 0.85)  # the paper has no k = 2, p = 15%
    assert faces[3] == (1.0, 1.0, 1.0)  # not measured
    assert faces[0] != faces[1] and figures.png(figure).startswith(b"\x89PNG")


def test_a_heatmap_without_values_is_blank():
    assert texts(figures.heatmap(dict.fromkeys([(1, 0.15)]), "none", 1, KS, PS)) == []


def test_lines_are_told_apart_and_a_single_point_is_seen():
    values = {"one": {10: Value((5.0,)), 20: Value((4.0,))}, "two": {10: Value((3.0,))}, "none": {}}
    styles = {name: {"color": f"C{i}", "ls": "-", "marker": "s"} for i, name in enumerate(values)}
    figure = figures.lines(values, "loss", "updates", styles=styles, band=True, log="y")
    axes = figure.axes[0]
    first, second = axes.lines
    assert first.get_xydata().tolist() == [[10, 5], [20, 4]] and first.get_marker() == "None"
    assert second.get_xydata().tolist() == [[10, 3]] and second.get_marker() == "s"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log") and len(axes.collections) == 2
    figures.png(figures.lines({}, "nothing", "p"))


def test_lines_have_bars_over_seeds():
    values = {"MLM": {50: Value((4.0,)), 15: Value((2.0, 3.0))}, "ExLM": {}}
    axes = figures.lines(values, "entropy", "p, %").axes[0]
    [container] = axes.containers
    assert container[0].get_xydata().tolist() == [[15, 2.5], [50, 4]]
    spread = math.sqrt(0.5)
    first = container[2][0].get_segments()[0]
    assert first[:, 1].tolist() == pytest.approx([2.5 - spread, 2.5 + spread])


def test_dots_of_a_median_have_the_range_as_bars():
    ours = {"$mine_1 (ours)": {"RTE": Value((60.0, 61.0, 70.0), median=True), "CoLA": None}}
    figure = figures.dots(["CoLA", "RTE"], {"ExLM": {"CoLA": 64.6, "RTE": 78.8}}, ours, "%")
    axes = figure.axes[0]
    paper, container = axes.containers
    assert paper[0].get_xydata()[:, 0].tolist() == [64.6, 78.8]
    assert paper[0].get_markerfacecolor() == "white"
    assert container[0].get_xydata()[:, 0].tolist() == [61.0]
    assert sorted(container[2][0].get_segments()[0][:, 0]) == [60.0, 70.0]
    figures.png(figure)  # a dollar in a name is no formula
