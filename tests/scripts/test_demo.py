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


@pytest.mark.slow
def test_a_sentence_and_a_mistake(browser, text_model):
    from selenium.webdriver.support.ui import WebDriverWait

    def wait(condition):
        return WebDriverWait(browser, 90, poll_frequency=0.2).until(lambda _: condition())

    def found(selector: str) -> list:
        return browser.find_elements("css selector", selector)

    def fill(text: str) -> None:
        [box] = found("#text textarea, #text input")
        box.clear()
        box.send_keys(text)
        found("#fill")[0].click()

    started = demo.run([str(text_model), "--port", "0"], wait=False)
    try:
        browser.get_log("performance")
        set_width(browser, 1280)
        browser.get(started.local_url)
        wait(lambda: found("#fill"))
        fill(TEXT)
        frame = wait(lambda: found("#page iframe"))[0]
        wait(lambda: frame.size["height"] != 960)  # it is as high as its page
        browser.switch_to.frame(frame)
        heading = wait(lambda: found("h1"))[0]
        assert heading.text == TEXT.replace("<mask>", "mask 1", 1).replace("<mask>", "mask 2")
        found(".node")[1].click()
        assert len(found("#tokens tr")) == 5 and not found("img")
        assert found("button.decoding span")[0].text == load(text_model).graph(TEXT).best.text
        browser.switch_to.default_content()
        fill("<img src=x onerror=alert(1)> no masks")
        wait(lambda: "no <mask> in" in found("body")[0].text)
        assert not found("img[src=x]") and errors(browser) == []
        sent = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
        urls = [m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"]
        assert {urlsplit(url).hostname for url in urls if url.startswith("http")} == {"127.0.0.1"}
    finally:
        started.close()


def test_an_emptied_field_is_answered(text_model):
    gradio = pytest.importorskip("gradio")
    fill = [f.fn for f in demo.build(gradio, load(text_model)).fns.values() if f.fn.__name__ == "fill"][0]
    assert fill(TEXT, None, None) == fill(TEXT, 0, 0) and "<iframe" in fill(TEXT, 0, 1)


def test_mistakes(refused, save_checkpoint, text_model, tmp_path, monkeypatch):
    for model, named in ((save_checkpoint("p_roberta_base"), "exlm_*"), (tmp_path, str(tmp_path))):
        assert named in refused(demo.main, model)
    assert "'70000'" in refused(demo.main, text_model, "--port", 70000)
    monkeypatch.setitem(sys.modules, "gradio", None)  # is not installed
    assert "gradio" in refused(demo.main, text_model)
