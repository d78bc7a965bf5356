"""Where the original tokens stand after states expansion, against counting them one by one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fs_plugins.modules.state_expansion import expand_states, gather_tokens

BOS, PAD, EOS, MASK = 0, 1, 2, 99


def counted(sentence, masked, k):
    """Index of the (first) state of each token, walking through the sentence."""
    index, places = 0, []
    for token, is_masked in zip(sentence, masked, strict=True):
        places.append(index)
        index += k if is_masked or token in (BOS, EOS) else 1
    return places


def expand(sentences, masks, k):
    T = max(map(len, sentences))
    tokens = torch.tensor([s + [PAD] * (T - len(s)) for s in sentences])
    masked = torch.tensor([m + [False] * (T - len(m)) for m in masks])
    return tokens, expand_states(tokens, masked, tokens, k, bos=BOS, eos=EOS, pad=PAD)


@st.composite
def sentences(draw):
    """Pairs with ``</s> </s>`` between, several ``<s>``, ends cut off, masks anywhere."""
    middle = draw(st.lists(st.sampled_from([EOS, EOS, BOS, MASK, 5, 6, 7]), max_size=14))
    sentence = [BOS, *middle, *([EOS] if draw(st.booleans()) else [])]
    masked = draw(st.lists(st.booleans(), min_size=len(sentence), max_size=len(sentence)))
    return sentence, masked if draw(st.booleans()) else [False] * len(sentence)


@pytest.mark.parametrize("k", [1, 2, 4])
@settings(deadline=None, max_examples=150)
@given(batch=st.lists(sentences(), min_size=1, max_size=4))
def test_equals_counting(k, batch):
    tokens, layout = expand([s for s, _ in batch], [m for _, m in batch], k)
    assert layout.first_states.shape == tokens.shape
    x = torch.arange(layout.tokens.numel()).view(*layout.tokens.shape, 1).expand(-1, -1, 3)
    gathered = gather_tokens(x, layout.first_states)
    assert gathered.shape == (*tokens.shape, 3)
    for b, (sentence, masked) in enumerate(batch):
        places = counted(sentence, masked, k)
        assert layout.first_states[b].tolist() == places + [0] * (tokens.shape[1] - len(places))
        assert (gathered[b, : len(places), 2] - b * layout.tokens.shape[1]).tolist() == places
        assert layout.tokens[b, places].tolist() == sentence
        assert layout.positions[b, places].tolist() == list(range(len(sentence)))


@pytest.mark.parametrize(
    ("sentence", "k", "expected"),
    [
        ([BOS, 5, 6, EOS, EOS, 7, EOS], 4, [0, 4, 5, 6, 10, 14, 15]),
        ([BOS, 5, 6, EOS, EOS, 7, EOS], 1, [0, 1, 2, 3, 4, 5, 6]),
        ([BOS, EOS], 2, [0, 2]),
        ([BOS], 4, [0]),
        ([BOS, 5, 6], 2, [0, 2, 3]),  # cut off: the </s> that is appended has no place among the tokens
    ],
)
def test_by_hand(sentence, k, expected):
    _, layout = expand([sentence], [[False] * len(sentence)], k)
    assert layout.first_states.tolist() == [expected]
