"""The heatmap: what it shows is what the graph says, and any tokens can be drawn."""

import copy
import warnings

from fs_plugins.inference.plots import shown_states, transition_heatmap


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
        transition_heatmap(graph).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
