"""Joint likelihood in bits per masked token; the likelihoods themselves are tested with masked_prediction."""

import json
import math

import pytest

from fs_plugins.analysis import joint_likelihood
from fs_plugins.analysis.masked_prediction import MaskedPredictor
from fs_plugins.analysis.masked_samples import mask_words
from tests import builders

SYMBOLS = builders.dictionary()
SAMPLES = [builders.sentence(SYMBOLS, n, [], seed=n)[0] for n in (10, 20, 12)]


def test_bits_are_of_all_masked_words_and_errors_of_samples():
    predictor = MaskedPredictor(builders.exlm(SYMBOLS, ext_state_num=2))
    found = joint_likelihood.joint_likelihood(predictor, SAMPLES, 0.3)
    masks = [mask_words(sample, 0.3, SYMBOLS, 1, i) for i, sample in enumerate(SAMPLES)]
    joint, marginal = [], []
    for sample, mask in zip(SAMPLES, masks, strict=True):
        each, together = predictor.log_probs_of(sample[None], mask[None])
        joint.append(-float(together) / math.log(2))
        marginal.append(-float(each.sum()) / math.log(2))
    words = [int(mask.sum()) for mask in masks]
    assert words == [3, 6, 4] and found["mask_prob"] == 0.3
    assert found["joint"].mean == pytest.approx(sum(joint) / 13, rel=1e-5)
    assert found["marginal"].mean == pytest.approx(sum(marginal) / 13, rel=1e-5)
    assert found["gain"].mean == pytest.approx((sum(marginal) - sum(joint)) / 13, abs=1e-5)
    assert (found["joint"].tokens, found["joint"].sentences) == (13, 3)
    mean = sum(joint) / 13
    spread = sum((bits - mean * n) ** 2 for bits, n in zip(joint, words, strict=True))
    assert found["joint"].standard_error == pytest.approx(math.sqrt(spread * 3 / 2) / 13, rel=1e-4)


@pytest.mark.parametrize(
    "predictor",
    [
        MaskedPredictor(builders.model("p_roberta_base", SYMBOLS, **builders.SMALL)),
        MaskedPredictor(builders.exlm(SYMBOLS, ext_state_num=2), ctc=True),
    ],
    ids=["mlm", "without transitions"],
)
def test_where_words_are_independent_there_is_no_gain(predictor):
    found = joint_likelihood.joint_likelihood(predictor, SAMPLES, 0.3)
    assert abs(found["gain"].mean) < 1e-5
    assert found["joint"].mean == pytest.approx(found["marginal"].mean)


def test_the_command_takes_p_of_the_training(save_checkpoint, corpus, tmp_path):
    path = save_checkpoint("mlm_tiny", mask_prob=0.4)
    output = tmp_path / "joint.json"
    joint_likelihood.main([str(path), "--output", str(output), "--device", "cpu"])
    written = json.loads(output.read_text())
    assert [result["mask_prob"] for result in written["results"]] == [0.4]
    assert 0 < written["results"][0]["joint"]["mean"] < 10 and written["updates"] == 5
