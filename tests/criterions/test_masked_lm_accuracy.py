"""masked_lm with accuracy against fairseq's masked_lm and against predictions counted by hand."""

import torch
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss

from fs_plugins.criterions.masked_lm_accuracy import MaskedLmAccuracy
from tests.criterions.batch import BATCH, SENTENCES, WORDS, logged
from tests.support import builders

ABOUT = MaskedLmConfig(tpu=False), builders.task(WORDS)


def test_same_loss_gradient_and_figures_as_masked_lm():
    mlm = builders.mlm(WORDS)
    for batch in (BATCH, builders.sample(WORDS, SENTENCES[1:2])):  # with masks, and without
        results = []
        for criterion in (MaskedLmLoss, MaskedLmAccuracy):
            mlm.zero_grad()
            loss, sample_size, log = criterion(*ABOUT)(mlm, batch)
            loss.backward()
            gradient = torch.cat([p.grad.flatten() for p in mlm.parameters() if p.grad is not None])
            results.append(({**log, "size": sample_size}, loss.detach(), gradient))
        (expected, *theirs), (found, *ours) = results
        assert all(map(torch.equal, ours, theirs)) and not mlm._forward_hooks
        assert {key: found[key] for key in expected} == expected
    assert int(found["right"]) == 0


def test_counts_the_predictions_that_are_right():
    mlm, target = builders.mlm(WORDS), BATCH["target"].clone()
    best = mlm(**BATCH["net_input"])[0].argmax(-1)
    # what the model predicts at one of the three masked places, another word at the others
    target[0, 2] = best[0, 2]
    for b, t in ((0, 3), (2, 1)):
        target[b, t] = WORDS.nspecial + int(best[b, t] == WORDS.nspecial)
    _, sample_size, log = MaskedLmAccuracy(*ABOUT)(mlm, {**BATCH, "target": target})
    assert (int(sample_size), int(log["right"])) == (3, 1)
    assert logged(MaskedLmAccuracy, log, {**log, "right": 2}, {**log, "right": 0})["accuracy"] == 33.33
