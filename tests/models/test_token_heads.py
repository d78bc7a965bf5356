"""Heads of tokens: their dropout, and how checkpoints with and without them load."""

import torch
import torch.nn.functional as F

from tests.support import builders

DICTIONARY = builders.dictionary(20)


def make(arch, **options):
    model = builders.model(arch, DICTIONARY, **{**builders.SMALL, **options})
    model.register_token_head("span", 2)
    return model.eval()


def test_pooler_dropout_stands_before_the_head():
    model = make("exlm_base", pooler_dropout=0.4).train()  # the encoder has no dropout
    tokens = torch.tensor([[0, 5, 6, 7, 2, 2, 8, 9, 2]])
    features = model.features(tokens)
    torch.manual_seed(3)
    expected = model.token_heads["span"].out_proj(F.dropout(features, 0.4))
    torch.manual_seed(3)
    torch.testing.assert_close(model(tokens, token_head_name="span")[0], expected)


def test_loading_restores_heads_and_leaves_out_unknown_ones(caplog):
    tuned = make("exlm_base", seed=1)
    for again in (make("exlm_base", seed=2), builders.exlm(DICTIONARY, load_checkpoint_heads=True)):
        again.load_state_dict(tuned.state_dict(), strict=True)
        found, expected = (model.token_heads["span"].out_proj.weight for model in (again, tuned))
        assert torch.equal(found, expected)
    builders.exlm(DICTIONARY).load_state_dict(tuned.state_dict(), strict=True)
    assert "token_heads.span.out_proj.weight" in caplog.text
