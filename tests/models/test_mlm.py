"""The vanilla MLM."""

import pytest
import torch
import torch.nn.functional as F

from tests import builders

WORDS = builders.dictionary(20)


def test_logits_of_masked_tokens_only():
    model = builders.model("p_roberta_base", WORDS, **builders.SMALL)
    batch = builders.sample(WORDS, [builders.sentence(WORDS, 6, [2, 5]), builders.sentence(WORDS, 3, [1])])
    tokens, masked = batch["net_input"]["src_tokens"], batch["target"].ne(WORDS.pad())
    everywhere, _ = model(tokens)
    assert everywhere.shape == (2, 8, len(WORDS))
    torch.testing.assert_close(model(tokens, masked_tokens=masked)[0], everywhere[masked])


def test_padding_changes_nothing():
    model = builders.model("mlm_tiny", WORDS, dropout=0.0, attention_dropout=0.0)
    tokens, _ = builders.sentence(WORDS, 5, [2])
    padded = F.pad(tokens, (0, 6), value=WORDS.pad())
    torch.testing.assert_close(
        model(padded[None])[0][:, : len(tokens)], model(tokens[None])[0], rtol=1e-4, atol=1e-5
    )


def test_hidden_states():
    model = builders.model("p_roberta_base", WORDS, **builders.SMALL)
    tokens, _ = builders.sentence(WORDS, 5, [2])
    features, extra = model.encoder.extract_features(tokens[None], return_all_hiddens=True)
    assert features.shape == (1, 7, 32)
    assert [tuple(h.shape) for h in extra["inner_states"]] == [(7, 1, 32)] * 3


def test_bad_flags():
    with pytest.raises(ValueError, match="--encoder-layers must be at least 1, got 0"):
        builders.model("p_roberta_base", WORDS, **{**builders.SMALL, "encoder_layers": 0})
