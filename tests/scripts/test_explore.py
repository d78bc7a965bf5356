"""The case study's command: text, JSON and pictures."""

import json

import explore
import torch
from matplotlib.image import imread

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
    assert sum(decoding["count"] for decoding in graph["samples"]) == 2
    assert all(f"{d['text']}  ({d['count']} of 2)  [" in printed for d in graph["samples"])
    best = graph["best"]
    path = " → ".join(graph["states"][u]["name"] for u in best["states"][1:-1])
    log_probs = f"{best['log_prob']:8.2f} {best['total_log_prob']:9.2f}"
    assert f"{log_probs}  {best['text']}  [{path}]" in printed
    matrix = torch.tensor(graph["transitions"])
    torch.testing.assert_close(matrix.sum(1)[:-1], torch.ones(11))
    for name in ("transitions.png", "states.png"):
        assert min(imread(output / name).shape[:2]) > 300 and name in printed


def test_seeds_and_what_is_there_already(pretrained, refused, tmp_path):
    samples, output = [], ("--output", str(tmp_path))
    for seed in "12":
        words = [str(pretrained), TEXT, "--samples", "8", "--seed", seed, *output, "--overwrite"]
        assert explore.main(words) == 0
        samples.append(json.loads((tmp_path / "graph.json").read_text())["samples"])
    assert samples[0] != samples[1]
    assert "graph.json exists already" in refused(explore.main, *output, pretrained, TEXT)
