"""The pictures show what the graph says, and any tokens can be drawn."""

import copy
import itertools
import warnings

import pytest
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from fs_plugins.inference.plots import shown_states, state_graph, transition_heatmap


def test_heatmap_shows_the_transition_matrix_and_any_tokens(graph, tmp_path):
    figure = transition_heatmap(graph)
    axes, states = figure.axes[0], shown_states(graph)
    image = axes.images[0].get_array()
    for i, u in enumerate(states):
        for j, v in enumerate(states):
            if graph.transitions[u.index][v.index]:
                assert v.index > u.index and image[i, j] == graph.transitions[u.index][v.index]
            else:
                assert image.mask[i, j]
    labels = [tick.get_text() for tick in axes.get_yticklabels()]
    assert labels == [tick.get_text() for tick in axes.get_xticklabels()]
    assert labels[0] == states[0].tokens[0].text
    first = next(i for i, state in enumerate(states) if state.mask)
    assert labels[first] == " · ".join(token.text for token in states[first].tokens[:3])
    texts = ("$x_1", "a$b$c", "%", "\\frac", "日本", "\\n", "")
    graph = copy.deepcopy(graph)
    for state, text in zip(shown_states(graph)[: len(texts)], texts, strict=True):
        object.__setattr__(state.tokens[0], "text", text)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a font without the letter draws a box
        for draw in (transition_heatmap, state_graph):
            draw(graph).savefig(tmp_path / "figure.png")
            assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize("least", [0.0, 0.05, 1.1])
def test_the_graph_has_its_strong_edges_and_the_best_path(least, graph):
    patches = state_graph(graph, least).axes[0].patches
    boxes = [patch for patch in patches if isinstance(patch, FancyBboxPatch)]
    edges = [patch for patch in patches if isinstance(patch, FancyArrowPatch)]
    states, steps = shown_states(graph), {*itertools.pairwise(graph.best.states)}
    assert len(boxes) == len(states)
    shares = {
        (u.index, v.index): u.visit_prob * graph.transitions[u.index][v.index]
        for u, v in itertools.combinations(states, 2)
    }
    drawn = {pair: p for pair, p in shares.items() if pair in steps or (p > 0 and p >= least)}
    assert [edge.get_linewidth() for edge in edges] == [max(0.5, 5 * p) for p in drawn.values()]
    black = [edge.get_edgecolor()[:3] == (0, 0, 0) for edge in edges]
    assert black == [pair in steps for pair in drawn]
