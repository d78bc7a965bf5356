"""The entropy's command: text and JSON; one clear line for everything that is wrong."""

import json

import analyse_entropy
import pytest
import torch

from fs_plugins.analysis import load_checkpoint, measure_entropy
from tests.analysis.conftest import corpus, one_thread, pretrained, save_checkpoint  # noqa: F401  (fixtures)
from tests.integration import commands


@pytest.fixture
def fails(capsys):
    """fails(arguments) -> the error that the command ends with."""
    return lambda *arguments: commands.error_of(analyse_entropy.main, arguments, capsys)


def test_what_it_prints_and_writes(pretrained, tmp_path, capsys):  # noqa: F811
    path = tmp_path / "new" / "entropy.json"
    flags = ["--mask-prob", "0.4", "--max-sentences", "9", "--seed", "3", "--output", str(path)]
    analyse_entropy.main([str(pretrained), *flags])
    printed, figures = capsys.readouterr().out, json.loads(path.read_text())
    report = measure_entropy(load_checkpoint(pretrained), mask_prob=0.4, max_sentences=9, seed=3)
    assert figures == json.loads(json.dumps(report.to_dict()))
    assert (figures["unit"], figures["kind"], figures["k"], figures["mask_prob"]) == ("bits", "exlm", 3, 0.4)
    assert "<s>, </s>" in figures["excluded"]
    assert "ExLM (exlm_tiny, k = 3), p = 0.4, split 'valid', seed 3; <s> and </s> left out" in printed
    for name in ("entropy", "entropy_posterior"):
        mean = figures[name]
        assert f"{mean['mean']:.4f} bits  +- {mean['standard_error']:.4f}" in printed
        assert f"({mean['tokens']} tokens in {mean['sentences']} sentences)" in printed
    assert f"{100 * figures['own_share']['mean']:.2f} %" in printed
    assert f"{figures['uniform']:.4f} bits" in printed


def test_other_kinds(save_checkpoint, capsys, tmp_path):  # noqa: F811
    analyse_entropy.main([str(save_checkpoint("p_roberta_base"))])
    assert "MLM (p_roberta_base), p = 0.3" in capsys.readouterr().out
    flags = {"task": "repeated_masked_lm", "repeat_times": 2, "mask_prob": 0.7}
    path = save_checkpoint("p_roberta_base", **flags)
    analyse_entropy.main([str(path), "--output", str(tmp_path / "r.json")])
    assert "Repeated MLM (p_roberta_base, k = 2), p = 0.7" in capsys.readouterr().out
    assert "tokens with a visible copy" in json.loads((tmp_path / "r.json").read_text())["excluded"]
    analyse_entropy.main([str(path), "--mask-prob", "0.01", "--max-sentences", "1"])
    assert "no such token" in capsys.readouterr().out
    analyse_entropy.main([str(save_checkpoint("exlm_base", criterion="nat_ctc_loss_mlm"))])
    assert "no posterior: this model was trained without transitions" in capsys.readouterr().out


def test_bad_input(pretrained, fails, tmp_path):  # noqa: F811
    assert "nothing.pt is not there" in fails(tmp_path / "nothing.pt")
    assert "no split 'test'" in fails(pretrained, "--split", "test")
    assert "got 1.5" in fails(pretrained, "--mask-prob", "1.5")
    assert "at least 1, got 0" in fails(pretrained, "--max-sentences", "0")
    (tmp_path / "dict.txt").write_text("one 1\n")
    message = fails(pretrained, "--data", tmp_path)
    assert "21 dictionary entries" in message and "this model 6" in message


def test_an_output_that_cannot_be_written(pretrained, fails, tmp_path):  # noqa: F811
    (tmp_path / "file").write_text("")
    for output in (tmp_path, tmp_path / "file" / "entropy.json"):
        assert f"cannot write --output {output}" in fails(pretrained, "--output", output)


def test_a_gpu_where_there_is_none(pretrained, fails, monkeypatch):  # noqa: F811
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert "'cuda' is not there" in fails(pretrained, "--device", "cuda")
