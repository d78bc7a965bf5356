"""Initial weights."""

import pytest
import torch

from tests import builders

WORDS = builders.dictionary(2000)


@pytest.mark.parametrize(
    ("arch", "flags", "std"),
    [
        ("exlm_base", builders.SMALL, 0.02),
        ("p_roberta_base", builders.SMALL, 0.02),
        ("exlm_tiny", {}, 0.2),
        ("mlm_tiny", {}, 0.2),
        ("exlm_tiny", {"embedding_init_std": 0.5}, 0.5),
    ],
)
def test_embedding(arch, flags, std):
    encoder = builders.model(arch, WORDS, **flags).encoder
    weight = encoder.sentence_encoder.embed_tokens.weight
    assert weight.std().item() == pytest.approx(std, rel=0.05)
    assert not weight[WORDS.pad()].any()
    assert encoder.lm_head.weight is weight
    assert encoder.sentence_encoder.layers[0].fc1.weight.std().item() == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("make", [builders.exlm, builders.mlm])
def test_an_untied_output_matrix_is_another_parameter(make):
    encoder = make(WORDS, untie_weights_roberta=True).encoder
    names = ("lm_head.weight", "sentence_encoder.embed_tokens.weight")
    output, embedding = (dict(encoder.named_parameters())[name] for name in names)
    assert output.shape == embedding.shape and not torch.equal(output, embedding)
    assert encoder.state_dict().keys() >= set(names)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_state_embeddings_are_drawn_after_everything_else(scale):
    """Relative to the embeddings; and only they tell states apart at first."""
    flags = {**builders.SMALL, "encoder_embed_dim": 512, "embedding_init_std": 0.5}
    without, model = (
        builders.model("exlm_base", WORDS, **flags, state_embedding_scale=s) for s in (0.0, scale)
    )
    added = set(model.state_dict()) - set(without.state_dict())
    assert added == {"encoder.state_embedding"} and not set(without.state_dict()) - set(model.state_dict())
    assert model.encoder.state_embedding.shape == (4, 512)
    assert model.encoder.state_embedding.std().item() == pytest.approx(scale * 0.5, rel=0.1)
    tokens, targets = builders.sentence(WORDS, 6, [2, 5])
    distances = []
    for one in (without, model):
        probs = one(tokens[None], target=targets[None])[0].logits()[0].softmax(-1).unflatten(0, (-1, 4))
        distances.append((probs[1:-1] - probs[1:-1].mean(1, keepdim=True)).abs().sum(-1).mean().item())
    assert 20 * distances[0] < distances[1]
