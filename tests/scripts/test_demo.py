"""The demo: a server on this machine alone, and what a browser shows of it."""

import json
import sys
from urllib.parse import urlsplit

import demo
import pytest

from fs_plugins.inference import load
from tests.support.browser import errors, set_width

TEXT = "this is <mask> news , and I am <mask> ."


@pytest.fixture(scope="module")
def text_model(save_checkpoint):
    return save_checkpoint("exlm_base", ext_state_num=3, spread=2.0)


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


@pytest.mark.slow
def test_a_sentence_and_a_mistake(served, text_model):
    browser = served(text_model)
    fill(browser, TEXT)
    frame = wait(browser, lambda: browser.find_elements("css selector", "#page iframe"))[0]
    wait(browser, lambda: frame.size["height"] != 960)  # it is as high as its page
    browser.switch_to.frame(frame)
    heading = wait(browser, lambda: browser.find_elements("css selector", "h1"))[0]
    assert heading.text == TEXT.replace("<mask>", "mask 1", 1).replace("<mask>", "mask 2")
    browser.find_elements("css selector", ".node")[1].click()
    assert len(browser.find_elements("css selector", "#tokens tr")) == 5
    best = load(text_model).graph(TEXT).best
    assert browser.find_element("css selector", "button.decoding span").text == best.text
    assert not browser.find_elements("css selector", "img")
    browser.switch_to.default_content()
    fill(browser, "<img src=x onerror=alert(1)> no masks")
    wait(browser, lambda: "no <mask> in" in browser.find_element("css selector", "body").text)
    assert not browser.find_elements("css selector", "img[src=x]")
    assert errors(browser) == []
    assert addresses(browser) == {"127.0.0.1"}


def test_an_emptied_field_is_answered(text_model):
    gradio = pytest.importorskip("gradio")
    fill = [f.fn for f in demo.build(gradio, load(text_model)).fns.values() if f.fn.__name__ == "fill"][0]
    for values in ((None, 1), (5, None), (5, -1)):
        with pytest.raises(gradio.Error, match="give a whole number"):
            fill(TEXT, *values)
    assert "<iframe" in fill(TEXT, 0, 1)


def test_mistakes(refused, save_checkpoint, text_model, tmp_path, monkeypatch):
    for model, named in ((save_checkpoint("p_roberta_base"), "exlm_*"), (tmp_path, str(tmp_path))):
        assert named in refused(demo.main, model)
    assert "'70000'" in refused(demo.main, text_model, "--port", 70000)
    monkeypatch.setitem(sys.modules, "gradio", None)  # is not installed
    assert "pip install -e '.[demo]'" in refused(demo.main, text_model)
