"""What states say of each target, against enumeration; tests/huggingface/test_outputs.py has their words."""

import math

import pytest
import torch

from fs_plugins.exlm.alignment import ctc_targets_log_prob, ctc_word_log_probs, word_log_probs
from fs_plugins.exlm.transitions import LOG_ZERO
from tests import oracles

M, V = 4, 5


def test_words_of_long_sentences_keep_their_digits():
    """400 nodes in float32: as in float64."""
    generator = torch.Generator().manual_seed(2)
    links = torch.randn(1, 400, 400, generator=generator, dtype=torch.float64)
    links = links.masked_fill(~torch.ones(400, 400, dtype=torch.bool).triu(1), LOG_ZERO).log_softmax(-1)
    words = torch.randn(1, 400, V, generator=generator, dtype=torch.float64).mul(3).log_softmax(-1)
    lengths = torch.tensor([400]), torch.tensor([100])
    exact = word_log_probs(words, links, *lengths)
    found = word_log_probs(words.float(), links.float(), *lengths)
    torch.testing.assert_close(found, exact.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_ctc_by_enumeration(k):
    """Of the targets, all of whose states emit the blank where they are that; and of a target's words."""
    words = torch.randn(2, M, k, V, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    words = words.log_softmax(-1).requires_grad_()
    targets, lengths = torch.tensor([[0, 3, 4, 2], [1, 1, 0, 0]]), torch.tensor([4, 2])
    own = words.gather(3, targets[:, :, None, None].expand(-1, -1, k, -1)).squeeze(3)
    found = ctc_targets_log_prob(own, words[..., 3], targets == 3, lengths)
    for b in range(2):
        expected = 0.0
        for m in range(int(lengths[b])):
            own, blank = (words[b, m, :, i].tolist() for i in (int(targets[b, m]), 3))
            expected += sum(blank) if targets[b, m] == 3 else oracles.ctc_log_prob(own, blank)
        assert found[b].item() == pytest.approx(expected, rel=1e-10)
    found.sum().backward()
    assert words.grad.isfinite().all() and (words.grad[1, 2:] == 0).all()
    states = words[0, 0].t().tolist()
    expected = torch.tensor([oracles.ctc_log_prob(state, states[3]) for state in states], dtype=torch.float64)
    expected[3] = -math.inf  # the blank is no word
    found = ctc_word_log_probs(words, 3)[0, 0]
    torch.testing.assert_close(found.exp(), expected.softmax(0))
