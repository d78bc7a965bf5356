"""The page of a case study, as a browser shows it."""

import itertools
import json
import math
import re
import shutil
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from fs_plugins.inference.page import page
from fs_plugins.inference.plots import shown_states
from tests import oracles

ODD = ["</script><script>document.title='broken'</script>", "<b>bold</b>", "<!--", "&lt;", "a'b\"c", "\u2028"]
ODD += ["/*DATA*/", "$&", "日本", "\\u003c"]


@pytest.fixture(scope="module")
def browser():
    """Selenium's driver of a Chromium; skipped, with the reason, if one of these is not installed."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (pip)")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.add_argument("--window-size=1280,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as started:
        started.set_page_load_timeout(120)
        yield started


@pytest.fixture
def opened(browser, tmp_path):
    """opened(graph, ...) -> the browser, with the page of a graph."""

    def open_page(graph, **options):
        path = tmp_path / "index.html"
        path.write_text(page(graph, **options), encoding="utf-8")
        browser.get(path.as_uri())
        return browser

    yield open_page
    assert not [e for e in browser.get_log("browser") if e["level"] in ("WARNING", "SEVERE")]


def texts(browser, css: str) -> list[str]:
    return [element.text for element in browser.find_elements("css selector", css)]


def edges(browser, more="") -> set[tuple[int, int]]:
    found = browser.find_elements("css selector", f".edge{more}")
    return {tuple(map(int, edge.get_attribute("data-edge").split("-"))) for edge in found}


def lit_nodes(browser) -> list[int]:
    return [int(e.get_attribute("data-node")) for e in browser.find_elements("css selector", ".node.path")]


def box(browser, node: int):
    return browser.find_element("css selector", f'.node[data-node="{node}"]')


def hover(browser, element) -> None:
    from selenium.webdriver import ActionChains

    ActionChains(browser).move_to_element(element).perform()


def test_the_page_needs_nothing_else(graph):
    html = page(graph)
    assert set(re.findall(r'(?:src|href)\s*=\s*"([^"]*)"', html)) == {"data:,"}
    assert "default-src 'none'" in html and "@import" not in html
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1]
    assert json.loads(embedded)["graph"] == json.loads(json.dumps(graph.to_dict()))


def test_hovering_a_state_shows_its_words_edges_and_paths(graph, opened):
    browser = opened(graph)
    u = next(state.index for state in shown_states(graph) if state.mask == 2)
    hover(browser, box(browser, u))
    node, best = graph.states[u], set(itertools.pairwise(graph.best.states))
    assert texts(browser, "#state h2") == [node.name]
    words = texts(browser, "#tokens tr td:first-child")
    assert words == [word.text for word in node.tokens]
    shares = [float(text.strip("<%")) for text in texts(browser, "#tokens td.number")]
    assert shares == pytest.approx([100 * word.prob for word in node.tokens], rel=0.06, abs=0.01)
    onward = sorted(graph.transitions[u], reverse=True)[:6]
    shares = [float(text.strip("<%")) for text in texts(browser, "#to td.number")]
    assert shares == pytest.approx([100 * p for p in onward if p >= 0.0005], rel=0.06, abs=0.01)
    assert edges(browser, ":not(.faint)") == {pair for pair in edges(browser) if u in pair or pair in best}
    box(browser, u).click()  # pins it
    for element in (box(browser, 0), browser.find_element("css selector", "#summary")):
        hover(browser, element)
    assert texts(browser, "#state h2") == [node.name]
    box(browser, u).click()
    hover(browser, browser.find_element("css selector", "#summary"))
    assert texts(browser, "#state h2") == []


def test_paths_through_a_state_are_the_most_probable_ones(graph, opened):
    """Against all paths of a smaller graph, enumerated."""
    n, E = len(graph.states), graph.transitions
    found = {
        path: math.prod(E[a][b] for a, b in itertools.pairwise(path))
        for m in range(2, n + 1)
        for path in oracles.paths(n, m)
    }
    assert sum(found.values()) == pytest.approx(1.0)
    browser = opened(graph)
    for u in (4, 7):
        best = sorted((p for path, p in found.items() if u in path), reverse=True)[:3]
        browser.execute_script("show(arguments[0])", u)
        shares = [float(text.strip("<%")) for text in texts(browser, "#paths td.number")]
        assert shares == pytest.approx([100 * p for p in best], rel=0.06, abs=0.01)


def test_slider_hides_weak_edges(graph, opened):
    browser = opened(graph, min_edge=0.25)
    assert browser.find_element("css selector", "#slider").get_attribute("value") == "25"
    nodes = [state.index for state in shown_states(graph)]
    for percent in (25, 0, 100):
        browser.execute_script(
            "const s = document.getElementById('slider'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input'))",
            percent,
        )
        expected = set(itertools.pairwise(graph.best.states))
        for u, v in itertools.combinations(nodes, 2):
            p = graph.states[u].visit_prob * graph.transitions[u][v]
            expected |= {(u, v)} if p and p >= percent / 100 else set()
        assert edges(browser) == expected
    svg = ElementTree.fromstring(browser.execute_script("return drawingAsSvg()"))
    drawn = [element.get("class", "").split()[:1] for element in svg.iter()]
    assert (drawn.count(["edge"]), drawn.count(["node"])) == (len(expected), len(nodes))


def test_selecting_a_decoding_lights_its_path(graph, opened):
    browser = opened(graph)
    decodings = [graph.best, graph.best_free, *graph.samples, *graph.samples_free]
    buttons = browser.find_elements("css selector", ".decoding")
    shown = [state.index for state in shown_states(graph)]
    assert [b.find_element("css selector", "span").text for b in buttons] == [d.text for d in decodings]
    assert lit_nodes(browser) == graph.best.states
    for button, decoding in zip(buttons, decodings, strict=True):
        button.click()
        assert lit_nodes(browser) == [u for u in decoding.states if u in shown]
        assert browser.find_elements("css selector", ".decoding:has(:checked)") == [button]
        on_path = {pair for pair in itertools.pairwise(decoding.states) if set(pair) <= set(shown)}
        assert on_path <= edges(browser)
        assert f"{decoding.log_prob:.2f} / {decoding.total_log_prob:.2f}" in button.text
    assert f"{graph.samples[0].count} of 4 · " in buttons[2].text


def test_words_that_look_like_markup(graph, opened):
    nodes = list(graph.states)
    u = next(i for i, node in enumerate(nodes) if node.mask)
    words = [replace(nodes[u].tokens[0], text=text, symbol=text) for text in ODD]
    nodes[u] = replace(nodes[u], tokens=words)
    text = f"{ODD[0]} <b>x</b> <mask> and <mask>"
    best = replace(graph.best, text=ODD[0], pieces=[(ODD[0], 1)])
    browser = opened(replace(graph, states=nodes, text=text, notes=ODD, best=best))
    assert browser.title == text and not browser.find_elements("css selector", "b")
    hover(browser, box(browser, u))
    cells = browser.find_elements("css selector", "#tokens tr td:first-child")
    assert [cell.get_attribute("textContent") for cell in cells] == ODD
    assert texts(browser, ".decoding span")[0] == ODD[0]


def test_molecules_are_drawn_with_their_filled_atoms(graph, opened):
    cases = {"CCO": [("CC", 0), ("O", 1)], "c1cc": [("c1c", 0), ("c", 1)], "C" * 301: [("C" * 301, 0)]}
    best, free, large = (replace(graph.best, text=text, pieces=pieces) for text, pieces in cases.items())
    browser = opened(
        replace(graph, of_molecule=True, best=best, best_free=free, samples=[large], samples_free=[])
    )
    drawn, broken, huge = browser.find_elements("css selector", ".decoding")
    assert "Not drawn: 301 atoms" in huge.text
    assert drawn.find_element("css selector", "img").get_property("naturalWidth") == 240
    assert drawn.find_element("css selector", "mark").text == "O"
    assert "Not drawn" in broken.text and not broken.find_elements("css selector", "img")
    assert "Best of 2 tokens" in texts(browser, "#decodings")[0]
