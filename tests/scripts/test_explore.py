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
    flags = ["--top", "3", "--samples", "2", "--min-edge", "0.3", "--output", str(output)]
    assert explore.main([str(pretrained), TEXT, *flags]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{TEXT}\n2 masks, k = 3: 12 states\n")
    assert "NOTE: 'weather' is not in the dictionary: the model reads <unk> there" in printed
    graph = json.loads((output / "graph.json").read_text(encoding="utf-8"))
    for state in graph["states"]:
        tokens = "  ".join(f"{token['text']} {explore.percent(token['prob'])}" for token in state["tokens"])
        assert tokens in printed and state["name"] in printed and len(state["tokens"]) == 3
    for sampled in (graph["samples"], graph["samples_free"]):
        assert sum(decoding["count"] for decoding in sampled) == 2
        assert all(f"{d['text']}  ({d['count']} of 2)  [" in printed for d in sampled)
    for decoding in (graph["best"], graph["best_free"]):
        path = " → ".join(graph["states"][u]["name"] for u in decoding["states"][1:-1])
        log_probs = f"{decoding['log_prob']:8.2f} {decoding['total_log_prob']:9.2f}"
        assert f"{log_probs}  {decoding['text']}  [{path}]" in printed
    matrix = torch.tensor(graph["transitions"])
    torch.testing.assert_close(matrix.sum(1)[:-1], torch.ones(11))
    height, width, _ = imread(output / "transitions.png").shape
    assert min(height, width) > 300 and "transitions.png" in printed
    written = (output / "index.html").read_text(encoding="utf-8")
    assert written == page(load(pretrained).graph(TEXT, top=3, samples=2), 0.3)


def test_seeds_and_what_is_there_already(pretrained, refused, tmp_path):
    samples, output = [], ("--output", str(tmp_path))
    for seed in "12":
        words = [str(pretrained), TEXT, "--samples", "8", "--seed", seed, *output, "--overwrite"]
        assert explore.main(words) == 0
        samples.append(json.loads((tmp_path / "graph.json").read_text())["samples_free"])
    assert samples[0] != samples[1]
    assert "index.html exists already" in refused(explore.main, *output, pretrained, TEXT)
