"""The case study's command: text, JSON and pictures; one clear line for everything that is wrong."""

import json
import re

import explore
import pytest
import torch
from matplotlib.image import imread

from fs_plugins.analysis import load
from fs_plugins.analysis.page import page
from tests.browser import errors, set_width

TEXT = "this is <mask> weather , and I am <mask> ."


@pytest.fixture
def fails(refused):
    """fails(arguments) -> the error that the command ends with."""
    return lambda *arguments: refused(explore.main, *arguments)


def test_what_it_prints_and_writes(pretrained, tmp_path, capsys):
    output = tmp_path / "new" / "folder"
    assert explore.main([str(pretrained), TEXT, "--top", "3", "--samples", "2", "--output", str(output)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{TEXT}\n2 masks, k = 3: 12 nodes\n")
    assert "NOTE: 'weather' is not in the dictionary: the model reads <unk> there" in printed
    filling = json.loads((output / "filling.json").read_text(encoding="utf-8"))
    for node in filling["nodes"]:
        words = "  ".join(f"{word['text']} {explore.percent(word['prob'])}" for word in node["words"])
        assert words in printed and len(node["words"]) == 3
    for reading in (filling["best"], filling["best_free"], *filling["samples"], *filling["samples_free"]):
        assert f"{reading['log_prob']:8.2f} {reading['total_log_prob']:9.2f}  {reading['text']}  [" in printed
    assert len(filling["samples"]) == len(filling["samples_free"]) == 2
    matrix = torch.tensor(filling["transitions"])
    torch.testing.assert_close(matrix.sum(1)[:-1], torch.ones(11))
    for name in ("transitions.png", "graph.png"):
        height, width, _ = imread(output / name).shape
        assert min(height, width) > 300 and name in printed


def test_index_html(pretrained, tmp_path, capsys):
    """The page of the same filling, whose slider starts at --min-edge."""
    flags = ["--samples", "2", "--min-edge", "0.3", "--output", str(tmp_path)]
    assert explore.main([str(pretrained), TEXT, *flags]) == 0
    assert "index.html" in capsys.readouterr().out
    written = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert written == page(load(pretrained).fill(TEXT, samples=2), 0.3)
    [embedded] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', written, re.S)
    data = json.loads(embedded)
    assert data["filling"] == json.loads((tmp_path / "filling.json").read_text(encoding="utf-8"))
    assert data["min_edge"] == 0.3


def test_index_html_in_a_browser(pretrained, browser, tmp_path):
    assert explore.main([str(pretrained), TEXT, "--output", str(tmp_path)]) == 0
    filling = json.loads((tmp_path / "filling.json").read_text(encoding="utf-8"))
    for width in (1280, 400):
        set_width(browser, width)
        browser.get((tmp_path / "index.html").as_uri())
        assert browser.find_element("css selector", "h1").text == "this is mask 1 weather , and I am mask 2 ."
        assert "“weather” is not in the dictionary" in browser.find_element("css selector", "#notes").text
        best = browser.find_element("css selector", 'button.reading[aria-pressed="true"] span').text
        assert best == filling["best"]["text"]
        node = next(node for node in filling["nodes"] if node["mask"] == 1)
        browser.find_element("css selector", f'.node[data-node="{node["index"]}"]').click()
        words = browser.find_elements("css selector", "#words tr td:first-child")
        assert [word.text for word in words] == [word["text"] for word in node["words"]]
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert errors(browser) == []


def test_the_seed_decides_the_samples(pretrained, tmp_path):
    samples = []
    for seed in (1, 1, 2):
        flags = ["--samples", "8", "--seed", str(seed), "--output", str(tmp_path)]
        assert explore.main([str(pretrained), TEXT, *flags]) == 0
        samples.append(json.loads((tmp_path / "filling.json").read_text())["samples_free"])
    assert samples[0] == samples[1] != samples[2]


@pytest.mark.parametrize(
    ("p", "shown"), [(1.0, "100.0%"), (0.5, "50.0%"), (0.0123, "1.2%"), (4e-6, "0.0004%")]
)
def test_percent(p, shown):
    assert explore.percent(p) == shown


def test_a_vanilla_mlm(save_checkpoint, fails, tmp_path):
    message = fails(save_checkpoint("p_roberta_base"), TEXT, "--output", tmp_path)
    assert "--arch p_roberta_base" in message and "exlm_*" in message


def test_a_text_without_masks(pretrained, fails, tmp_path):
    assert "no <mask> in 'it is good'" in fails(pretrained, "it is good", "--output", tmp_path)


def test_more_masks_than_positions(pretrained, fails, tmp_path):
    message = fails(pretrained, "<mask> " * 30, "--output", tmp_path)
    assert "32 tokens" in message and "30 of them masks" in message and "64 positions" in message


def test_files_that_are_not_there(pretrained, fails, tmp_path):
    assert "nothing.pt is not there" in fails(tmp_path / "nothing.pt", TEXT, "--output", tmp_path)
    assert "no dict.txt" in fails(pretrained, TEXT, "--output", tmp_path, "--data", tmp_path)
    message = fails(pretrained, TEXT, "--output", tmp_path, "--bpe", tmp_path / "tokenizer.json")
    assert "no file" in message and "tokenizer.json" in message


def test_another_dictionary(pretrained, fails, tmp_path):
    (tmp_path / "dict.txt").write_text("one 1\n")
    message = fails(pretrained, TEXT, "--output", tmp_path, "--data", tmp_path)
    assert "21 dictionary entries" in message and "this model 6" in message


def test_an_output_that_cannot_be_written(pretrained, fails, tmp_path):
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file", tmp_path / "file" / "folder"):
        assert f"cannot write --output {output}/index.html" in fails(pretrained, TEXT, "--output", output)


def test_a_gpu_where_there_is_none(pretrained, fails, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert "'cuda' is not there" in fails(pretrained, TEXT, "--output", tmp_path, "--device", "cuda")
