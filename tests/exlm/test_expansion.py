"""States expansion against the same thing done token by token."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pad_sequence

from fs_plugins.exlm.encoder import gather_tokens
from fs_plugins.exlm.expansion import expand_states
from tests import oracles

BOS, PAD, EOS, UNK, MASK = 0, 1, 2, 3, 99
SPECIAL = {"bos": BOS, "eos": EOS, "pad": PAD}


@st.composite
def sentences(draw):
    """A sentence as masked_lm makes it: masked, replaced and kept targets, <s> and </s> possibly among
    them, </s> inside, and an end that may be cut off."""
    length = draw(st.integers(0, 12))
    middle = draw(st.lists(st.sampled_from([EOS, UNK, 5, 6, 7, 8]), min_size=length, max_size=length))
    originals = [BOS, *middle, *([EOS] if draw(st.booleans()) else [])]
    sentence = []
    for original in originals:
        fate = draw(st.sampled_from(["keep", "keep", "keep", "mask", "replace", "target"]))
        shown = {"mask": MASK, "replace": 9}.get(fate, original)
        sentence.append((shown, PAD if fate == "keep" else original))
    return sentence


@settings(deadline=None, max_examples=200)
@given(batch_of=st.lists(sentences(), min_size=1, max_size=4), k=st.integers(1, 5))
def test_equals_expansion_token_by_token(batch_of, k):
    tokens, targets = pad_sequence([torch.tensor(pairs) for pairs in batch_of], True, PAD).unbind(-1)
    kept = tokens.clone(), targets.clone()
    layout = expand_states(tokens, targets.ne(PAD), targets, k, **SPECIAL)
    assert torch.equal(tokens, kept[0]) and torch.equal(targets, kept[1])  # the caller's batch is untouched
    lengths = []
    for b, sentence in enumerate(batch_of):
        truth = oracles.expand_sentence([s for s, _ in sentence], [t for _, t in sentence], k, **SPECIAL)
        n, nodes, m = len(truth["tokens"]), len(truth["node_positions"]), len(truth["targets"])
        lengths.append(n)
        assert (layout.node_lengths[b], layout.target_lengths[b]) == (nodes, m)
        for name, values in truth.items():
            row = getattr(layout, name)[b].tolist()
            assert row[: len(values)] == values, name
            assert set(row[len(values) :]) <= {PAD if name in ("tokens", "targets") else 0}, name
    assert layout.tokens.shape == (len(batch_of), max(lengths)) and layout.first_states.shape == tokens.shape
    x = torch.arange(layout.tokens.numel()).view(*layout.tokens.shape, 1).expand(-1, -1, 3)
    gathered = gather_tokens(x, layout.first_states)[..., 2]
    assert torch.equal(gathered - x[:, :1, 0], layout.first_states)
    assert layout.node_positions.shape[1] == k * layout.targets.shape[1] == int(layout.node_lengths.max())
    assert layout.sizes.full == (min(lengths) == max(lengths))


def test_a_sentence_has_to_start_with_bos():
    tokens = torch.tensor([[BOS, 5, EOS], [7, 5, EOS]])
    with pytest.raises(ValueError, match="sentence 1 "):
        expand_states(tokens, torch.zeros_like(tokens, dtype=torch.bool), tokens, 2, **SPECIAL)
