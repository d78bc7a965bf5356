"""The entropy's command: text and JSON; one clear line for everything that is wrong."""

import json

import analyse_entropy
import pytest
import torch

from fs_plugins.analysis import load_checkpoint, measure_entropy


@pytest.fixture
def fails(refused):
    """fails(arguments) -> the error that the command ends with."""
    return lambda *arguments: refused(analyse_entropy.main, *arguments)


def test_what_it_prints_and_writes(pretrained, tmp_path, capsys):
    path = tmp_path / "new" / "entropy.json"
    flags = ["--mask-prob", "0.4", "--max-sentences", "9", "--seed", "3", "--output", str(path)]
    assert analyse_entropy.main([str(pretrained), *flags]) == 0
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


def test_other_kinds(save_checkpoint, capsys, tmp_path):
    assert analyse_entropy.main([str(save_checkpoint("p_roberta_base"))]) == 0
    assert "MLM (p_roberta_base), p = 0.3" in capsys.readouterr().out
    flags = {"task": "repeated_masked_lm", "repeat_times": 2, "mask_prob": 0.7}
    path = save_checkpoint("p_roberta_base", **flags)
    assert analyse_entropy.main([str(path), "--output", str(tmp_path / "r.json")]) == 0
    assert "Repeated MLM (p_roberta_base, k = 2), p = 0.7" in capsys.readouterr().out
    assert "tokens with a visible copy" in json.loads((tmp_path / "r.json").read_text())["excluded"]
    assert analyse_entropy.main([str(path), "--mask-prob", "0.01", "--max-sentences", "1"]) == 0
    assert "no such token" in capsys.readouterr().out
    assert analyse_entropy.main([str(save_checkpoint("exlm_base", criterion="nat_ctc_loss_mlm"))]) == 0
    assert "no posterior: this model was trained without transitions" in capsys.readouterr().out


def test_bad_input(pretrained, fails, tmp_path):
    assert "nothing.pt is not there" in fails(tmp_path / "nothing.pt")
    assert "no split 'test'" in fails(pretrained, "--split", "test")
    assert "got 1.5" in fails(pretrained, "--mask-prob", "1.5")
    assert "at least 1, got 0" in fails(pretrained, "--max-sentences", "0")
    (tmp_path / "dict.txt").write_text("one 1\n")
    message = fails(pretrained, "--data", tmp_path)
    assert "21 dictionary entries" in message and "this model 6" in message


def test_an_output_that_cannot_be_written(pretrained, fails, tmp_path):
    (tmp_path / "file").write_text("")
    for output in (tmp_path, tmp_path / "file" / "entropy.json"):
        assert f"cannot write --output {output}" in fails(pretrained, "--output", output)


def test_a_gpu_where_there_is_none(pretrained, fails, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert "'cuda' is not there" in fails(pretrained, "--device", "cuda")
