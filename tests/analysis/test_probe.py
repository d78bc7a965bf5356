"""The probe counts what the model predicts; its command reads a checkpoint and writes JSON."""

import json
import math

import pytest

from fs_plugins.analysis import joint_likelihood, probe
from fs_plugins.analysis.checkpoint import load_checkpoint
from fs_plugins.analysis.masked_prediction import MaskedPredictor
from fs_plugins.analysis.masked_samples import load_samples, mask_words
from tests import builders


def test_accuracy_and_bits():
    symbols = builders.dictionary()
    predictor = MaskedPredictor(builders.model("p_roberta_base", symbols, **builders.SMALL))
    samples = [builders.sentence(symbols, n, [], seed=n)[0] for n in (10, 20, 30)]
    masks = [mask_words(sample, 0.2, symbols, 1, i) for i, sample in enumerate(samples)]
    assert [int(mask.sum()) for mask in masks] == [2, 4, 6]
    result = probe.probe(predictor, samples, 0.2)
    right = bits = 0
    for sample, mask in zip(samples, masks, strict=True):
        log_probs = predictor.token_log_probs(sample[None], mask[None])
        right += int((log_probs.argmax(-1) == sample[mask]).sum())
        bits -= float(log_probs[range(len(log_probs)), sample[mask]].sum()) / math.log(2)
    assert result["tokens"] == 12
    assert result["accuracy"] == pytest.approx(right / 12)
    assert result["bits"] == pytest.approx(bits / 12, rel=1e-5)


def test_the_command(pretrained, corpus, tmp_path, capsys):
    output = tmp_path / "new" / "probe.json"
    flags = ["--data", corpus, "--mask-prob", 0.3, 0.5, "--max-sentences", 9, "--device", "cpu", "--seed", 2]
    probe.main([str(flag) for flag in (pretrained, *flags, "--output", output)])
    written = json.loads(output.read_text())
    assert [path.name for path in output.parent.iterdir()] == ["probe.json"] and capsys.readouterr().out == ""
    assert (written["arch"], written["k"], written["updates"]) == ("exlm_tiny", 3, 12)
    assert (written["split"], written["seed"]) == ("valid", 2)
    checkpoint = load_checkpoint(pretrained, device="cpu")
    samples = load_samples(checkpoint, count=9)
    expected = [probe.probe(MaskedPredictor.of(checkpoint), samples, p, seed=2) for p in (0.3, 0.5)]
    assert written["results"] == expected

    probe.main([str(flag) for flag in (pretrained, *flags)])
    assert json.loads(capsys.readouterr().out) == written


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--split", "test"], "error: there is no split 'test'"),
        (["--data", "nowhere"], "error: there is no dict.txt in nowhere"),
        (["--max-sentences", "0"], "error: the number of samples must be at least 1, got 0"),
        (["--output", "/dev/null/probe.json"], "error: cannot write --output"),
    ],
)
def test_mistakes_end_with_one_line(pretrained, flags, message):
    with pytest.raises(SystemExit) as error:
        probe.main([str(pretrained), "--device", "cpu", *flags])
    assert str(error.value).startswith(message)


def test_a_training_without_a_share_of_masks_needs_one(save_checkpoint, corpus, capsys):
    path = save_checkpoint("mlm_tiny", task="sentence_prediction", mask_prob=None)
    flags = [str(path), "--device", "cpu", "--data", str(corpus), "--sample-break-mode", "eos"]
    with pytest.raises(SystemExit) as error:
        joint_likelihood.main([*flags, "--max-tokens", "64"])
    assert "was trained by --task sentence_prediction: give --mask-prob" in str(error.value)
    joint_likelihood.main([*flags, "--max-tokens", "64", "--mask-prob", "0.3"])
    assert json.loads(capsys.readouterr().out)["results"][0]["mask_prob"] == 0.3


def test_a_share_that_is_none_is_refused(pretrained, capsys):
    with pytest.raises(SystemExit):
        probe.main([str(pretrained), "--mask-prob", "1.5"])
    assert "1.5: give a share between 0 and 1, such as 0.15" in capsys.readouterr().err
