"""masked_lm with accuracy against fairseq's masked_lm and against predictions counted by hand."""

import pytest
import torch
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss

from fs_plugins.criterions.masked_lm_accuracy import MaskedLmAccuracy
from tests.criterions.batch import logged
from tests.support import builders

WORDS = builders.dictionary(12)


def both():
    return (cls(MaskedLmConfig(tpu=False), builders.task(WORDS)) for cls in (MaskedLmLoss, MaskedLmAccuracy))


@pytest.fixture(scope="module")
def mlm():
    return builders.mlm(WORDS)


def batch(*masks):
    sentences = [builders.sentence(WORDS, 6 + i, mask, seed=i) for i, mask in enumerate(masks)]
    return builders.sample(WORDS, sentences)


def test_same_loss_gradient_and_figures_as_masked_lm(mlm):
    for masks in ([(1, 4, 5), (3,), ()], [(), ()]):
        results = []
        for criterion in both():
            mlm.zero_grad()
            loss, sample_size, log = criterion(mlm, batch(*masks))
            loss.backward()
            gradient = torch.cat([p.grad.flatten() for p in mlm.parameters() if p.grad is not None])
            results.append(({**log, "size": sample_size}, loss.detach(), gradient))
        (expected, *theirs), (found, *ours) = results
        assert all(map(torch.equal, ours, theirs))
        assert {key: found[key] for key in expected} == expected
    assert int(found["right"]) == 0


def test_counts_the_predictions_that_are_right(mlm):
    sample = batch((1, 4, 5), (3,), ())
    best = mlm(**sample["net_input"])[0].argmax(-1)
    # what the model predicts at two of the four masked places, another word at the others
    sample["target"][0, 1], sample["target"][1, 3] = best[0, 1], best[1, 3]
    for b, t in ((0, 4), (0, 5)):
        sample["target"][b, t] = WORDS.nspecial + int(best[b, t] == WORDS.nspecial)
    _, criterion = both()
    _, sample_size, log = criterion(mlm, sample)
    assert (int(sample_size), int(log["right"])) == (4, 2)
    assert logged(MaskedLmAccuracy, log, {**log, "right": 1})["accuracy"] == 37.5
