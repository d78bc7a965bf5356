"""The heatmap: what it shows is what the filling says, and any words can be drawn."""

import copy
import warnings

from fs_plugins.inference.plots import shown_nodes, transition_heatmap


def test_heatmap_shows_the_transition_matrix(filling):
    figure = transition_heatmap(filling)
    axes, nodes = figure.axes[0], shown_nodes(filling)
    image = axes.images[0].get_array()
    for i, u in enumerate(nodes):
        for j, v in enumerate(nodes):
            if v.index > u.index:
                assert image[i, j] == filling.transitions[u.index][v.index]
            else:
                assert image.mask[i, j]
    labels = [tick.get_text() for tick in axes.get_yticklabels()]
    assert labels == [tick.get_text() for tick in axes.get_xticklabels()]
    assert labels[0] == nodes[0].words[0].text
    first = next(i for i, node in enumerate(nodes) if node.mask)
    assert labels[first] == " · ".join(word.text for word in nodes[first].words[:3])


def test_words_that_look_like_markup_or_have_no_letters(filling, tmp_path):
    texts = ("$x_1", "a$b$c", "%", "\\frac", "日本", "\\n", "")
    filling = copy.deepcopy(filling)
    for node, text in zip(shown_nodes(filling)[: len(texts)], texts, strict=True):
        object.__setattr__(node.words[0], "text", text)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a font without the letter draws a box
        transition_heatmap(filling).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
