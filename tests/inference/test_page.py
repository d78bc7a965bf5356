"""The pictures of a case study: what they draw is what the graph says, whatever the tokens are."""

import copy
import itertools
import warnings
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from fs_plugins.inference import load
from fs_plugins.inference import page as case_study
from fs_plugins.inference.page import page
from fs_plugins.inference.plots import shown_states, transition_heatmap

ODD = "</script><script>document.title='broken'</script><b>bold</b> & <!-- {x} \u2028 日本"


@pytest.fixture(scope="module")
def graph(save_checkpoint):
    model = load(save_checkpoint("exlm_base", ext_state_num=3))
    return model.graph("this is <mask> news , and I am <mask> to see it .")


def drawing(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6].replace("xmlns", "x"))


@pytest.mark.parametrize("least", [0.0, 0.25, 1.0])
def test_states_edges_and_the_best_path(graph, least, monkeypatch):
    monkeypatch.setattr(case_study, "MIN_EDGE", least)
    found = drawing(page(graph))
    nodes = [state.index for state in shown_states(graph)]
    boxes = found.findall("g")
    assert len(boxes) == len(nodes)
    for u, box in zip(nodes, boxes, strict=True):
        assert box.find("title").text.startswith(f"{graph.states[u].name}:\n{graph.states[u].tokens[0].text}")
        assert (box.find("rect").get("class") == "best") == (u in graph.best.states)
    steps = set(itertools.pairwise(graph.best.states))
    expected = {}
    for u, v in itertools.combinations(nodes, 2):
        p = graph.states[u].visit_prob * graph.transitions[u][v]
        if (u, v) in steps or (p and p >= least):
            expected[f"{graph.states[u].name} → {graph.states[v].name}"] = (u, v) in steps
    edges = found.findall("path")
    assert {e.find("title").text.split(":")[0]: e.get("class") == "best" for e in edges} == expected


def test_tokens_that_look_like_markup(graph):
    u = next(state.index for state in graph.states if state.mask)
    states = list(graph.states)
    states[u] = replace(states[u], tokens=[replace(states[u].tokens[0], text=ODD)])
    best = replace(graph.best, text=ODD, pieces=[(ODD, 1)])
    html = page(replace(graph, states=states, text=f"{ODD} <mask>", unknown=[ODD], best=best))
    assert "<script" not in html and "<b>" not in html and "<!--" not in html
    assert any(ODD in (box.find("title").text or "") for box in drawing(html).findall("g"))
    assert "default-src 'none'" in html and "src=" not in html
    assert "no path has so many states" in page(replace(graph, best=None))


def test_heatmap_shows_the_transition_matrix_and_any_tokens(graph, tmp_path):
    graph = copy.deepcopy(graph)
    states = shown_states(graph)
    for state, text in zip(states, ("$x_1", "a$\\frac$", "日本", ""), strict=False):
        object.__setattr__(state.tokens[0], "text", text)
    figure = transition_heatmap(graph)
    axes = figure.axes[0]
    expected = [[graph.transitions[u.index][v.index] for v in states] for u in states]
    np.testing.assert_array_equal(axes.images[0].get_array().filled(0), expected)
    labels = [" · ".join(token.text for token in s.tokens[: 3 if s.mask else 1]) for s in states]
    for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [tick.get_text() for tick in ticks] == labels
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a font without the letter draws a box
        figure.savefig(tmp_path / "figure.png")
