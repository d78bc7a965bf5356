"""Measures of masked words against their definitions, and the command that writes them."""

import json
import math

import pytest
import torch

from fs_plugins.inference import load
from fs_plugins.inference.masked_prediction import MaskedPredictor
from fs_plugins.measures.__main__ import main
from fs_plugins.measures.entropy import corpus_entropy
from fs_plugins.measures.masked_measures import joint_likelihood, probe
from fs_plugins.measures.masked_samples import load_samples, mask_words
from tests.support import builders

SYMBOLS = builders.dictionary()
SAMPLES = [builders.sentence(SYMBOLS, n, [], seed=n)[0] for n in (10, 20, 12)]


def clustered(sums, counts) -> tuple[float, float]:
    """A mean over words and its standard error, with samples as clusters."""
    mean, n = sum(sums) / sum(counts), len(counts)
    spread = sum((total - mean * count) ** 2 for total, count in zip(sums, counts, strict=True))
    return mean, math.sqrt(spread * n / (n - 1)) / sum(counts)


def test_probe_and_joint_likelihood_are_of_all_masked_words():
    model = builders.exlm(SYMBOLS, ext_state_num=2)
    predictor = MaskedPredictor(model)
    masks = [mask_words(sample, 0.3, SYMBOLS, 1, i) for i, sample in enumerate(SAMPLES)]
    with torch.no_grad():  # a word of the second sample becomes the most probable one everywhere
        model.encoder.lm_head.bias[SAMPLES[1][masks[1]][0]] = 5.0
    right, joint, marginal = [], [], []
    for sample, mask in zip(SAMPLES, masks, strict=True):
        each, together = predictor.log_probs_of(sample[None], mask[None])
        best = predictor.token_log_probs(sample[None], mask[None]).argmax(-1)
        right.append(int((best == sample[mask]).sum()))
        joint.append(-float(together) / math.log(2))
        marginal.append(-float(each.sum()) / math.log(2))
    words = [int(mask.sum()) for mask in masks]
    assert words == [3, 6, 4] and sum(right) > 0
    found = probe(predictor, SAMPLES, 0.3)
    assert (found["tokens"], found["mask_prob"]) == (13, 0.3)
    assert found["bits"] == pytest.approx(sum(marginal) / 13, rel=1e-5)
    assert (found["accuracy"], found["standard_error"]) == pytest.approx(clustered(right, words))
    found = joint_likelihood(predictor, SAMPLES, 0.3)
    mean, error = clustered(joint, words)
    assert found["joint"].mean == pytest.approx(mean, rel=1e-5)
    assert found["joint"].standard_error == pytest.approx(error, rel=1e-4)
    assert (found["joint"].tokens, found["joint"].sentences) == (13, 3)
    assert found["marginal"].mean == pytest.approx(sum(marginal) / 13, rel=1e-5)
    assert found["gain"].mean == pytest.approx((sum(marginal) - sum(joint)) / 13, abs=1e-5)


def measured(tmp_path, *arguments) -> dict:
    """What the command writes."""
    output = tmp_path / "new" / "measured.json"
    main([*map(str, arguments), "--device", "cpu", "--output", str(output), "--overwrite"])
    assert [path.name for path in output.parent.iterdir()] == ["measured.json"]
    return json.loads(output.read_text())["rows"]


def test_the_command_reads_checkpoints_and_writes_json(pretrained, save_checkpoint, corpus, tmp_path):
    flags = ["--data", corpus, "--mask-prob", 0.3, "--mask-prob", 0.5, "--max-sentences", 9, "--seed", 2]
    [found] = measured(tmp_path, "probe", pretrained, *flags)
    about = {"arch": "exlm_tiny", "k": 3, "updates": 12, "split": "valid", "seed": 2}
    assert {name: found[name] for name in about} == about and found["criterion"] == "nat_dag_loss_mlm"
    model = load(pretrained, device="cpu")
    samples = load_samples(model.checkpoint, count=9)
    assert found["results"] == [probe(model.predictor, samples, p, seed=2) for p in (0.3, 0.5)]
    [row] = measured(tmp_path, "entropy", pretrained, "--mask-prob", 0.4, 0.2, "--max-sentences", 9)
    assert row.keys() == found.keys() and [result["mask_prob"] for result in row["results"]] == [0.4, 0.2]
    expected = corpus_entropy(model.checkpoint, mask_prob=0.4, max_sentences=9)
    assert row["results"][0]["entropy"]["mean"] == expected["entropy"].mean
    assert row["results"][0].keys() == expected.keys()
    [row] = measured(tmp_path, "joint", pretrained, "--mask-prob", 0.3, "--max-sentences", 1)
    joint = row["results"][0]["joint"]  # of one sentence: the error of the mean is not finite
    assert joint["standard_error"] is None and joint["mean"] > 0
    other = save_checkpoint("exlm_tiny", ext_state_num=2)  # of 5 updates, which come first
    rows = measured(tmp_path, "probe", pretrained, other, "--mask-prob", 0.2, "--max-sentences", 4)
    assert [(row["updates"], row["k"]) for row in rows] == [(5, 2), (12, 3)]


def test_models_of_other_words_are_not_compared(pretrained, save_checkpoint, tmp_path):
    builders.write_dictionary(tmp_path, builders.WORDS[:7])
    other = save_checkpoint("exlm_tiny", symbols=builders.dictionary(builders.WORDS[:7]), data=tmp_path)
    with pytest.raises(SystemExit, match="different vocabularies"):
        main(["probe", str(pretrained), str(other), "--device", "cpu", "--max-sentences", "2"])
    with pytest.raises(SystemExit, match="no sample of at most 1 tokens"):
        main(["probe", str(pretrained), "--device", "cpu", "--max-tokens", "1"])


def test_the_masking_probability_is_the_trainings(save_checkpoint, corpus, tmp_path):
    [found] = measured(tmp_path, "joint", save_checkpoint("mlm_tiny", mask_prob=0.4))
    assert [result["mask_prob"] for result in found["results"]] == [0.4]
    other = save_checkpoint("mlm_tiny", task="sentence_prediction", mask_prob=None)
    flags = ["--data", corpus, "--sample-break-mode", "eos", "--max-tokens", 64]
    [found] = measured(tmp_path, "joint", other, *flags, "--mask-prob", 0.3)
    assert found["results"][0]["mask_prob"] == 0.3
