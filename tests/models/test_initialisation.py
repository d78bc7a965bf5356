"""Initial weights."""

import math

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


@pytest.mark.parametrize("arch", ["exlm_base", "p_roberta_base"])
def test_layers(arch):
    """The same weights as by default, but larger; everything outside of the layers as it was."""
    default, larger = (
        builders.model(arch, WORDS, **builders.SMALL, **flags).state_dict()
        for flags in ({}, {"layer_init_std": 0.1})
    )
    scaled = 0
    for name, weight in default.items():
        is_matrix = ".layers." in name and weight.dim() == 2
        scaled += is_matrix
        torch.testing.assert_close(larger[name], 5 * weight if is_matrix else weight, rtol=1e-6, atol=0)
    assert scaled == 2 * 6
    assert larger["encoder.sentence_encoder.layers.0.fc1.weight"].std().item() == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize("std", [0.0, -0.02, math.nan])
def test_a_standard_deviation_that_is_none(std):
    with pytest.raises(ValueError, match=f"--layer-init-std must be a number above 0, got {std}"):
        builders.model("mlm_tiny", WORDS, layer_init_std=std)


def test_the_states_of_a_mask_start_equal_unless_layers_start_large():
    """What --layer-init-std is for: in a small model nothing tells states apart at first."""
    tokens, targets = builders.sentence(WORDS, 6, [2, 5])
    distances = []
    for std in (0.02, 0.2):
        model = builders.model("exlm_tiny", WORDS, layer_init_std=std)
        probs = model(tokens[None], target=targets[None])[0].logits()[0].softmax(-1).unflatten(0, (-1, 4))
        distances.append((probs[1:-1] - probs[1:-1].mean(1, keepdim=True)).abs().sum(-1).mean().item())
    assert distances[0] < 0.01 < 0.1 < distances[1]
