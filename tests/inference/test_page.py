"""The page of a case study, as a browser shows it."""

import itertools
import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from fs_plugins.inference.page import page
from fs_plugins.inference.plots import shown_nodes
from tests import oracles
from tests.browser import errors, set_width

ODD = ["</script><script>document.title='broken'</script>", "<b>bold</b>", "<!--", "&lt;", "a'b\"c", "\u2028"]
ODD += ["/*DATA*/", "$&", "日本", "\\u003c"]


@pytest.fixture
def opened(browser, tmp_path):
    """opened(filling, ...) -> the browser, with the page of a filling."""

    def open_page(filling, **options):
        path = tmp_path / "index.html"
        path.write_text(page(filling, **options), encoding="utf-8")
        set_width(browser, 1280)
        browser.get(path.as_uri())
        return browser

    yield open_page
    assert errors(browser) == []


def texts(browser, css: str) -> list[str]:
    return [element.text for element in browser.find_elements("css selector", css)]


def edges(browser) -> set[tuple[int, int]]:
    found = browser.find_elements("css selector", ".edge")
    return {tuple(map(int, edge.get_attribute("data-edge").split("-"))) for edge in found}


def lit_nodes(browser) -> list[int]:
    return [int(e.get_attribute("data-node")) for e in browser.find_elements("css selector", ".node.path")]


def box(browser, node: int):
    return browser.find_element("css selector", f'.node[data-node="{node}"]')


def hover(browser, element) -> None:
    from selenium.webdriver import ActionChains

    ActionChains(browser).move_to_element(element).perform()


def test_the_page_needs_nothing_else(filling):
    html = page(filling)
    assert set(re.findall(r'(?:src|href)\s*=\s*"([^"]*)"', html)) == {"data:,"}
    assert "default-src 'none'" in html and "@import" not in html
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1]
    assert json.loads(embedded)["filling"] == filling.to_dict()


def test_sentence_and_nodes(filling, opened):
    browser = opened(filling)
    assert texts(browser, "h1") == ["this is mask 1 news , and I am mask 2 to see it ."]
    assert "2 masks, k = 3: 12 states" in texts(browser, "#summary")[0]
    found = browser.find_elements("css selector", ".node")
    shown = [node.index for node in shown_nodes(filling)]
    assert [int(element.get_attribute("data-node")) for element in found] == shown
    set_width(browser, 400)  # the graph alone scrolls
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
    box(browser, 0).click()
    assert texts(browser, "#state h2") == ["<s>, state 1"]


def test_hovering_a_state_shows_its_words_edges_and_paths(filling, opened):
    browser = opened(filling)
    u = next(node.index for node in shown_nodes(filling) if node.mask == 2)
    hover(browser, box(browser, u))
    node, best = filling.nodes[u], set(itertools.pairwise(filling.best.nodes))
    assert texts(browser, "#state h2") == [f"mask 2, state {node.copy}"]
    words = texts(browser, "#words tr td:first-child")
    assert words == [word.text for word in node.words]
    shares = [float(text.strip("<%")) for text in texts(browser, "#words td.number")]
    assert shares == pytest.approx([100 * word.prob for word in node.words], rel=0.06, abs=0.01)
    onward = sorted(filling.transitions[u], reverse=True)[:6]
    shares = [float(text.strip("<%")) for text in texts(browser, "#to td.number")]
    assert shares == pytest.approx([100 * p for p in onward if p >= 0.0005], rel=0.06, abs=0.01)
    assert {
        e.get_attribute("data-edge") for e in browser.find_elements("css selector", ".edge:not(.faint)")
    } == {f"{a}-{b}" for a, b in edges(browser) if u in (a, b) or (a, b) in best}
    hover(browser, browser.find_element("css selector", "#summary"))
    assert "Point at a state" in texts(browser, "#state")[0]


def test_paths_through_a_state_are_the_most_probable_ones(filling, opened):
    """Against all paths of a smaller graph, enumerated."""
    n, E = len(filling.nodes), filling.transitions
    found = {
        path: math.prod(E[a][b] for a, b in itertools.pairwise(path))
        for m in range(2, n + 1)
        for path in oracles.paths(n, m)
    }
    assert sum(found.values()) == pytest.approx(1.0)
    browser = opened(filling)
    for u in (4, 7):
        best = sorted((p for path, p in found.items() if u in path), reverse=True)[:3]
        browser.execute_script("show(arguments[0])", u)
        shares = [float(text.strip("<%")) for text in texts(browser, "#paths td.number")]
        assert shares == pytest.approx([100 * p for p in best], rel=0.06, abs=0.01)


def test_a_click_pins_a_state(filling, opened):
    browser = opened(filling)
    first, second = [node.index for node in shown_nodes(filling) if node.mask][:2]
    box(browser, first).click()
    hover(browser, box(browser, second))
    hover(browser, browser.find_element("css selector", "#summary"))
    node = filling.nodes[first]
    assert texts(browser, "#state h2") == [f"mask {node.mask}, state {node.copy}"]
    box(browser, first).click()
    hover(browser, browser.find_element("css selector", "#summary"))
    assert texts(browser, "#state h2") == []


def test_slider_hides_weak_edges(filling, opened):
    browser = opened(filling, min_edge=0.25)
    assert browser.find_element("css selector", "#slider").get_attribute("value") == "25"
    nodes = [node.index for node in shown_nodes(filling)]
    for percent in (25, 0, 100):
        browser.execute_script(
            "const s = document.getElementById('slider'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input'))",
            percent,
        )
        expected = set(itertools.pairwise(filling.best.nodes))
        for u in nodes:
            onward = {v: filling.transitions[u][v] for v in nodes if v > u}
            strong = {v for v, p in onward.items() if p and (p >= percent / 100 or p == max(onward.values()))}
            expected |= {(u, v) for v in strong}
        assert edges(browser) == expected
    svg = ElementTree.fromstring(browser.execute_script("return drawingAsSvg()"))
    drawn = [element.get("class", "").split()[:1] for element in svg.iter()]
    assert (drawn.count(["edge"]), drawn.count(["node"])) == (len(expected), len(nodes))
    with pytest.raises(ValueError, match="0 to 1, got 2"):
        page(filling, 2.0)


def test_selecting_a_reading_lights_its_path(filling, opened):
    browser = opened(filling)
    readings = [filling.best, filling.best_free, *filling.samples, *filling.samples_free]
    buttons = browser.find_elements("css selector", "button.reading")
    shown = [node.index for node in shown_nodes(filling)]
    assert [b.find_element("css selector", "span").text for b in buttons] == [r.text for r in readings]
    assert lit_nodes(browser) == filling.best.nodes
    for button, reading in zip(buttons, readings, strict=True):
        button.click()
        assert lit_nodes(browser) == [u for u in reading.nodes if u in shown]
        assert [b for b in buttons if b.get_attribute("aria-pressed") == "true"] == [button]
        on_path = {pair for pair in itertools.pairwise(reading.nodes) if set(pair) <= set(shown)}
        assert on_path <= edges(browser)
        assert f"{reading.log_prob:.2f} / {reading.total_log_prob:.2f}" in button.text


def test_words_that_look_like_markup(filling, opened):
    nodes = list(filling.nodes)
    u = next(i for i, node in enumerate(nodes) if node.mask)
    words = [replace(nodes[u].words[0], text=text, symbol=text) for text in ODD]
    nodes[u] = replace(nodes[u], words=words)
    text = f"{ODD[0]} <b>x</b> <mask> and <mask>"
    odd = replace(filling, nodes=nodes, text=text, notes=ODD, best=replace(filling.best, text=ODD[0]))
    browser = opened(odd)
    assert browser.title == text and not browser.find_elements("css selector", "b")
    hover(browser, box(browser, u))
    cells = browser.find_elements("css selector", "#words tr td:first-child")
    assert [cell.get_attribute("textContent") for cell in cells] == ODD
    assert texts(browser, "button.reading span")[0] == ODD[0]
