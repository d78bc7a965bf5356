"""The demo: a server on this machine alone, and what a browser shows of it."""

import json
import sys
from types import SimpleNamespace
from urllib.parse import urlsplit

import demo
import pytest

from fs_plugins.huggingface.export import export
from fs_plugins.inference.loading import load_explorer
from tests import builders
from tests.browser import errors, set_width

DAG = "nat_dag_loss_mlm"
TEXT = "this is <mask> news , and I am <mask> ."


@pytest.fixture(scope="module")
def text_model(save_checkpoint):
    return save_checkpoint("exlm_base", criterion=DAG, ext_state_num=3, spread=2.0)


@pytest.fixture(scope="module")
def smiles_model(save_checkpoint):
    symbols = builders.dictionary(["C", "c", "1", "O", "N", "(", ")", "="])
    return save_checkpoint("exlm_base", criterion=DAG, ext_state_num=3, spread=2.0, symbols=symbols)


@pytest.fixture
def smiles_data(tmp_path):
    (tmp_path / "dict.txt").write_text("".join(f"{s} 1\n" for s in "Cc1ON()="))
    return tmp_path


@pytest.fixture
def served(browser):
    """served(arguments) -> the browser, with the demo."""
    running = []

    def serve(*arguments):
        started = demo.run(demo.parse_arguments([*map(str, arguments), "--port", "0"]), wait=False)
        running.append(started)
        browser.get_log("performance")
        set_width(browser, 1280)
        browser.get(started.local_url)
        wait(browser, lambda: browser.find_elements("css selector", "#fill"))
        return browser

    yield serve
    for started in running:
        started.close()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def wait(browser, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 90, poll_frequency=0.2).until(lambda _: condition())


def fill(browser, text: str) -> None:
    box = browser.find_element("css selector", "#text textarea, #text input")
    box.clear()
    box.send_keys(text)
    browser.find_element("css selector", "#fill").click()


def addresses(browser) -> set[str]:
    """Hosts that were asked for anything."""
    sent = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"]
    return {urlsplit(url).hostname for url in urls if url.startswith("http")}


def test_a_sentence(served, text_model):
    browser = served(text_model)
    fill(browser, TEXT)
    frame = wait(browser, lambda: browser.find_elements("css selector", "#page iframe"))[0]
    wait(browser, lambda: frame.size["height"] != 960)  # it is as high as its page
    browser.switch_to.frame(frame)
    heading = wait(browser, lambda: browser.find_elements("css selector", "h1"))[0]
    assert heading.text == TEXT.replace("<mask>", "mask 1", 1).replace("<mask>", "mask 2")
    browser.find_elements("css selector", ".node")[1].click()
    assert len(browser.find_elements("css selector", "#words tr")) == 5
    best = load_explorer(text_model).fill(TEXT).best
    assert browser.find_element("css selector", "button.reading span").text == best.text
    browser.switch_to.default_content()
    assert not browser.find_elements("css selector", "figure")
    assert errors(browser) == []
    assert addresses(browser) == {"127.0.0.1"}


def test_a_mistake_is_shown(served, text_model):
    browser = served(text_model)
    fill(browser, "<img src=x onerror=alert(1)> no masks")
    wait(browser, lambda: "no <mask> in" in browser.find_element("css selector", "body").text)
    assert not browser.find_elements("css selector", "img[src=x]")


def test_molecules_are_drawn(served, browser, smiles_model, smiles_data):
    scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    browser = served(smiles_model, "--data", smiles_data, "--bpe", "smiles")
    fill(browser, "CC(=O)<mask>c1ccccc1")
    figures = wait(browser, lambda: browser.find_elements("css selector", "figure"))
    filling = load_explorer(smiles_model, data=smiles_data, bpe="smiles").fill("CC(=O)<mask>c1ccccc1")
    expected = list(dict.fromkeys(r.text for r in (filling.best, *filling.samples)))
    captions = [figure.find_element("css selector", "figcaption").text for figure in figures]
    assert captions == expected
    caption = figures[0].find_element("css selector", "figcaption")
    assert caption.value_of_css_property("color") == "rgba(34, 34, 34, 1)"  # on white
    assert errors(browser) == []


def test_drawings():
    readings = [SimpleNamespace(text=smiles) for smiles in ("CCO", "CCO", "C<b>", "c1cc")]
    drawn = demo.draw_molecules([*readings, None])
    assert drawn.count("<figure>") == 3 and drawn.count("<svg") == 1
    assert drawn.count("Not a molecule") == 2 and "C&lt;b&gt;" in drawn and "<b>" not in drawn


def test_an_exported_folder(smiles_model, smiles_data, tmp_path):
    options, text = {"data": smiles_data, "bpe": "smiles"}, "CC(=O)<mask>c1ccccc1"
    loaded = load_explorer(export(smiles_model, tmp_path / "exported", **options))
    assert loaded.codec.name == "smiles"
    assert loaded.fill(text) == load_explorer(smiles_model, **options).fill(text)


def test_gradio_is_not_installed(refused, text_model, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert "pip install -e '.[demo]'" in refused(demo.main, text_model)


def test_mistakes(refused, save_checkpoint, tmp_path):
    message = refused(demo.main, save_checkpoint("p_roberta_base"))
    assert "exlm_*" in message and "no graph of states" in message
    assert f"there is no {tmp_path / 'config.json'}" in refused(demo.main, tmp_path)
    assert "does not exist" in refused(demo.main, tmp_path / "checkpoint.pt")
