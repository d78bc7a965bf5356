"""What states say of each target, against enumeration."""

import math

import pytest
import torch

from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.custom_ops.dag_reference import dag_loss_reference
from fs_plugins.modules.marginals import (
    NEVER,
    ctc_log_probs,
    ctc_targets_log_prob,
    ctc_word_log_probs,
    word_log_probs,
)
from tests import oracles

NODES, TARGETS = torch.tensor([9, 12, 6]), torch.tensor([3, 4, 2])
B, M, L, V, K = 3, 4, 12, 5, 3


def graph(missing=0.0, seed=0):
    match, links = oracles.random_graph(B, M, L, seed=seed, missing=missing, scale=2.0)
    return match, links.clamp(min=NEVER)


def test_gradients_in_an_export_are_the_operators_and_never_nan():
    match, links = (value.requires_grad_() for value in graph(0.3))
    dag_loss_reference(match, links, NODES, TARGETS).sum().backward()
    found = match.grad, links.grad
    match, links = match.detach().requires_grad_(), links.detach()
    links = links.masked_fill(links == NEVER, -math.inf).requires_grad_()
    dag_loss(match, links, NODES, TARGETS).sum().backward()
    for one, other in zip(found, (match.grad, links.grad), strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_words_of_each_target(dtype):
    """Over all paths with as many nodes as targets, in proportion to their transitions."""
    _, links = graph(0.2)
    words = torch.randn(B, L, V, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    words = words.log_softmax(-1)
    found = word_log_probs(words.to(dtype), links.to(dtype), NODES, TARGETS).exp()
    assert found.shape == (B, M, V)
    for b, (n, m) in enumerate(zip(NODES.tolist(), TARGETS.tolist(), strict=True)):
        paths = oracles.weighted_paths(links[b], n, m)
        for i in range(m):
            expected = sum(weight * words[b, path[i]].exp() for weight, path in paths)
            torch.testing.assert_close(found[b, i].double(), expected, rtol=0, atol=1e-6)


def test_words_of_long_sentences_keep_their_digits():
    """400 nodes in float32: as in float64."""
    generator = torch.Generator().manual_seed(2)
    links = torch.randn(1, 400, 400, generator=generator, dtype=torch.float64)
    links = links.masked_fill(~torch.ones(400, 400, dtype=torch.bool).triu(1), NEVER).log_softmax(-1)
    words = torch.randn(1, 400, V, generator=generator, dtype=torch.float64).mul(3).log_softmax(-1)
    lengths = torch.tensor([400]), torch.tensor([100])
    exact = word_log_probs(words, links, *lengths)
    found = word_log_probs(words.float(), links.float(), *lengths)
    torch.testing.assert_close(found, exact.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_ctc_by_enumeration(k):
    logits = torch.randn(2, k, V, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
    words = logits.requires_grad_().log_softmax(-1)
    blank = words[..., 3, None]
    found = ctc_log_probs(words, blank)
    # differentiable: a single run of the word from state i to j, blanks around it
    runs = [
        blank[:, :i].sum(1) + words[:, i:j].sum(1) + blank[:, j:].sum(1)
        for i in range(k)
        for j in range(i + 1, k + 1)
    ]
    expected = torch.stack(runs).logsumexp(0)
    torch.testing.assert_close(found, expected)
    others = [0, 1, 2, 4]
    for b in range(2):
        for w in others:
            truth = oracles.ctc_log_prob(words[b, :, w].tolist(), words[b, :, 3].tolist())
            assert found[b, w].item() == pytest.approx(truth, rel=1e-10)
    weights = torch.randn_like(expected)
    gradients = (torch.autograd.grad(x, logits, weights, retain_graph=True)[0] for x in (found, expected))
    torch.testing.assert_close(*gradients)
    scores = ctc_word_log_probs(words, 3)
    torch.testing.assert_close(scores[:, others], found[:, others].log_softmax(-1))
    assert (scores[:, 3].exp() == 0).all()


def test_ctc_of_targets():
    """Their sum; where a target is the blank, all of its states emit that."""
    words = torch.randn(2, M, K, V, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    words = words.log_softmax(-1).requires_grad_()
    targets, lengths = torch.tensor([[0, 3, 4, 2], [1, 1, 0, 0]]), torch.tensor([4, 2])
    own = words.gather(3, targets[:, :, None, None].expand(-1, -1, K, -1)).squeeze(3)
    found = ctc_targets_log_prob(own, words[..., 3], targets == 3, lengths)
    for b in range(2):
        expected = 0.0
        for m in range(int(lengths[b])):
            own, blank = (words[b, m, :, i].tolist() for i in (int(targets[b, m]), 3))
            expected += sum(blank) if targets[b, m] == 3 else oracles.ctc_log_prob(own, blank)
        assert found[b].item() == pytest.approx(expected, rel=1e-10)
    found.sum().backward()
    assert words.grad.isfinite().all() and (words.grad[1, 2:] == 0).all()
