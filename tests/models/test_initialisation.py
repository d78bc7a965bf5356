"""Initial weights."""

import pytest

from tests.support import builders

WORDS = builders.dictionary(2000)


STDS = [("exlm_base", builders.SMALL, 0.02), ("p_roberta_base", builders.SMALL, 0.02)]
STDS += [("exlm_tiny", {}, 0.2), ("mlm_tiny", {}, 0.2), ("exlm_tiny", {"embedding_init_std": 0.5}, 0.5)]


@pytest.mark.parametrize(("arch", "flags", "std"), STDS)
def test_embedding(arch, flags, std):
    encoder = builders.model(arch, WORDS, **flags).encoder
    weight = encoder.sentence_encoder.embed_tokens.weight
    assert weight.std().item() == pytest.approx(std, rel=0.05)
    assert not weight[WORDS.pad()].any()
    assert encoder.lm_head.weight is weight
    assert encoder.sentence_encoder.layers[0].fc1.weight.std().item() == pytest.approx(0.02, rel=0.1)
