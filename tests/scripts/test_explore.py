"""The case study's command: text, JSON and pictures; one clear line for everything that is wrong."""

import json

import explore
import pytest
import torch
from matplotlib.image import imread

from tests.analysis.conftest import corpus, one_thread, pretrained, save_checkpoint  # noqa: F401  (fixtures)
from tests.integration import commands

TEXT = "this is <mask> weather , and I am <mask> ."


@pytest.fixture
def fails(capsys):
    """fails(arguments) -> the error that the command ends with."""
    return lambda *arguments: commands.error_of(explore.main, arguments, capsys)


def test_what_it_prints_and_writes(pretrained, tmp_path, capsys):  # noqa: F811
    output = tmp_path / "new" / "folder"
    explore.main([str(pretrained), TEXT, "--top", "3", "--samples", "2", "--output", str(output)])
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


def test_the_seed_decides_the_samples(pretrained, tmp_path):  # noqa: F811
    samples = []
    for seed in (1, 1, 2):
        flags = ["--samples", "8", "--seed", str(seed), "--output", str(tmp_path)]
        explore.main([str(pretrained), TEXT, *flags])
        samples.append(json.loads((tmp_path / "filling.json").read_text())["samples_free"])
    assert samples[0] == samples[1] != samples[2]


@pytest.mark.parametrize(
    ("p", "shown"), [(1.0, "100.0%"), (0.5, "50.0%"), (0.0123, "1.2%"), (4e-6, "0.0004%")]
)
def test_percent(p, shown):
    assert explore.percent(p) == shown


def test_a_vanilla_mlm(save_checkpoint, fails, tmp_path):  # noqa: F811
    message = fails(save_checkpoint("p_roberta_base"), TEXT, "--output", tmp_path)
    assert "--arch p_roberta_base" in message and "exlm_*" in message


def test_a_text_without_masks(pretrained, fails, tmp_path):  # noqa: F811
    assert "no <mask> in 'it is good'" in fails(pretrained, "it is good", "--output", tmp_path)


def test_more_masks_than_positions(pretrained, fails, tmp_path):  # noqa: F811
    message = fails(pretrained, "<mask> " * 30, "--output", tmp_path)
    assert "32 tokens" in message and "30 of them masks" in message and "64 positions" in message


def test_files_that_are_not_there(pretrained, fails, tmp_path):  # noqa: F811
    assert "nothing.pt is not there" in fails(tmp_path / "nothing.pt", TEXT, "--output", tmp_path)
    assert "no dict.txt" in fails(pretrained, TEXT, "--output", tmp_path, "--data", tmp_path)
    message = fails(pretrained, TEXT, "--output", tmp_path, "--bpe", tmp_path / "tokenizer.json")
    assert "no file" in message and "tokenizer.json" in message


def test_another_dictionary(pretrained, fails, tmp_path):  # noqa: F811
    (tmp_path / "dict.txt").write_text("one 1\n")
    message = fails(pretrained, TEXT, "--output", tmp_path, "--data", tmp_path)
    assert "21 dictionary entries" in message and "this model 6" in message


def test_an_output_that_cannot_be_written(pretrained, fails, tmp_path):  # noqa: F811
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file", tmp_path / "file" / "folder"):
        assert f"cannot write into --output {output}" in fails(pretrained, TEXT, "--output", output)


def test_a_gpu_where_there_is_none(pretrained, fails, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert "'cuda' is not there" in fails(pretrained, TEXT, "--output", tmp_path, "--device", "cuda")
