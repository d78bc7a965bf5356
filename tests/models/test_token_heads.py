"""Scores of each token: where they come from, and how checkpoints with and without such heads load."""

import logging

import pytest
import torch
import torch.nn.functional as F

from tests import oracles
from tests.support import builders

DICTIONARY = builders.dictionary(20)
BOS, PAD, EOS = DICTIONARY.bos(), DICTIONARY.pad(), DICTIONARY.eos()
PAIR = [BOS, 5, 6, 7, EOS, EOS, 8, 9, 10, 11, EOS]
MODELS = [("p_roberta_base", {}), *(("exlm_base", {"ext_state_num": k}) for k in (1, 2, 4))]


def make(arch, **options):
    model = builders.model(arch, DICTIONARY, **{**builders.SMALL, **options})
    model.register_token_head("span", 2)
    return model.eval()


def rows(*sentences):
    T = max(map(len, sentences))
    return torch.tensor([s + [PAD] * (T - len(s)) for s in sentences])


@pytest.mark.parametrize(("arch", "options"), MODELS)
def test_each_tokens_scores_are_those_of_its_first_state(arch, options):
    model, k = make(arch, **options), options.get("ext_state_num", 1)
    tokens = rows(PAIR, [BOS, 5, EOS, EOS, 12, EOS])
    scores, _ = model(tokens, token_head_name="span")
    assert scores.shape == (2, len(PAIR), 2)
    features, _ = model(tokens, features_only=True)
    for b, row in enumerate(tokens.tolist()):
        sentence = [t for t in row if t != PAD]
        special = {"bos": BOS, "eos": EOS, "pad": PAD}
        expanded = oracles.expand_sentence(sentence, [PAD] * len(sentence), k, **special)
        for t, place in enumerate(expanded["first_states"]):
            expected = model.token_heads["span"](features[b, place])
            assert torch.allclose(scores[b, t], expected, atol=1e-6)


def test_pooler_dropout_stands_before_the_head():
    model = make("exlm_base", pooler_dropout=0.4).train()  # the encoder has no dropout
    features, _ = model.token_features(rows(PAIR))
    torch.manual_seed(3)
    expected = model.token_heads["span"].out_proj(F.dropout(features, 0.4))
    torch.manual_seed(3)
    torch.testing.assert_close(model(rows(PAIR), token_head_name="span")[0], expected)


def test_loading_restores_heads_and_leaves_out_unknown_ones(caplog):
    tuned = make("exlm_base", seed=1)
    for again in (make("exlm_base", seed=2), builders.exlm(DICTIONARY, load_checkpoint_heads=True)):
        again.load_state_dict(tuned.state_dict(), strict=True)
        found, expected = (model.token_heads["span"].out_proj.weight for model in (again, tuned))
        assert torch.equal(found, expected)
    with caplog.at_level(logging.WARNING):
        builders.exlm(DICTIONARY).load_state_dict(tuned.state_dict(), strict=True)
    assert "token_heads.span.out_proj.weight" in caplog.text
    with pytest.raises(ValueError, match="embed_tokens.weight"):  # no encoder
        tuned.load_state_dict({"head.weight": torch.zeros(2)}, strict=True)
