"""The case study's command: text, JSON and pictures."""

import json

import explore
import torch
from matplotlib.image import imread

from fs_plugins.inference import load
from fs_plugins.inference.page import page

TEXT = "this is <mask> weather , and I am <mask> ."


def test_what_it_prints_and_writes(pretrained, tmp_path, capsys):
    output = tmp_path / "new" / "folder"
    flags = ["--top", "3", "--min-edge", "0.3", "--output", str(output)]
    assert explore.main([str(pretrained), TEXT, *flags]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{TEXT}\n2 masks, k = 3: 12 states\n")
    assert "NOTE: 'weather' is not in the dictionary: the model reads <unk> there" in printed
    graph = json.loads((output / "graph.json").read_text(encoding="utf-8"))
    for state in graph["states"]:
        tokens = "  ".join(f"{token['text']} {explore.percent(token['prob'])}" for token in state["tokens"])
        assert tokens in printed and state["name"] in printed and len(state["tokens"]) == 3
    best = graph["best"]
    path = " → ".join(graph["states"][u]["name"] for u in best["states"][1:-1])
    assert f"{best['log_prob']:.2f} {best['total_log_prob']:.2f}  {best['text']}  [{path}]" in printed
    matrix = torch.tensor(graph["transitions"])
    torch.testing.assert_close(matrix.sum(1)[:-1], torch.ones(11))
    height, width, _ = imread(output / "transitions.png").shape
    assert min(height, width) > 300 and "transitions.png" in printed
    written = (output / "index.html").read_text(encoding="utf-8")
    assert written == page(load(pretrained).graph(TEXT, top=3), 0.3)
