"""The criterion with chunked logits against all logits at once, through the whole model."""

import functools

import pytest
import torch
import torch.nn.functional as F

from fs_plugins.criterions import nat_dag_loss_mlm as module
from fs_plugins.custom_ops.match_scores import match_scores
from tests import builders

WORDS = builders.dictionary(60)


def all_logits(states, weight, bias, targets):
    log_probs = F.linear(states, weight, bias).log_softmax(-1)
    return log_probs.gather(2, targets[:, None].expand(-1, states.shape[1], -1)).transpose(1, 2)


@pytest.mark.parametrize("rows_per_chunk", [1, 7, 1000])
def test_same_loss_and_gradients(monkeypatch, rows_per_chunk):
    model = builders.exlm(WORDS)
    sentences = [builders.sentence(WORDS, n, range(1, n, 4), seed=n) for n in (30, 7, 18)]
    batch, results = builders.sample(WORDS, sentences), []
    chunked = functools.partial(match_scores, chunk_bytes=4 * len(WORDS) * rows_per_chunk)
    for scores in (all_logits, chunked):
        monkeypatch.setattr(module, "match_scores", scores)
        model.zero_grad()
        loss, _, _ = builders.criterion(WORDS)(model, batch)
        loss.backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
        results.append((loss.item(), gradient))
    (loss, gradient), (other_loss, other) = results
    assert other_loss == pytest.approx(loss, rel=1e-5)
    assert (gradient - other).norm() < 1e-5 * gradient.norm()
