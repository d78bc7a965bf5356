"""The case study's command: text, JSON and pictures."""

import json

import explore
from matplotlib.image import imread

from fs_plugins.inference import load
from fs_plugins.inference.page import page

TEXT = "this is <mask> weather , and I am <mask> ."


def test_what_it_prints_and_writes(pretrained, tmp_path, capsys):
    output = tmp_path / "new" / "folder"
    flags = ["--top", "3", "--output", str(output)]
    assert explore.main([str(pretrained), TEXT, *flags]) == 0
    printed = capsys.readouterr().out
    graph = json.loads((output / "graph.json").read_text(encoding="utf-8"))
    assert graph["unknown"] == ["weather"] and {len(state["tokens"]) for state in graph["states"]} == {3}
    assert printed.startswith(graph["best"]["text"] + "\n")
    height, width, _ = imread(output / "transitions.png").shape
    assert min(height, width) > 300 and "transitions.png" in printed
    written = (output / "index.html").read_text(encoding="utf-8")
    assert written == page(load(pretrained).graph(TEXT, top=3))
