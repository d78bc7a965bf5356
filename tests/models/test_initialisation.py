"""Initial weights."""

import pytest

from fs_plugins.inference.masked_prediction import MaskedPredictor
from fs_plugins.measures.masked_measures import use_of_states
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


def measured(arch: str, words, **flags) -> tuple[float, float]:
    """Effective states of a mask of a model with the flags of exlm-lattice, and their divergence in bits."""
    lattice = {"state_graph": "lattice", "state_embedding_scale": 1.0, "expand_from_layer": -1}
    model = builders.model(arch, words, **{"ext_state_num": 4, **lattice, **flags}).eval()
    samples = [builders.sentence(words, 20, [], seed=seed)[0] for seed in range(3)]
    use = use_of_states(MaskedPredictor(model), samples, 0.387)
    return 2 ** use["entropy"].mean, use["divergence"].mean


SMALL = [("exlm_base", 2000, {**builders.SMALL, "ext_state_num": k}) for k in (2, 4)]
OTHERS = [{"embedding_init_std": 0.02}, {"embedding_init_std": 1.0}, {"expand_from_layer": 0}]
OTHERS += [{"encoder_normalize_before": False}, {"encoder_layers": 6}, {"encoder_embed_dim": 128}]
CASES = [(arch, size, {**flags, **other}) for arch, size, flags in SMALL for other in OTHERS]
CASES += [
    pytest.param(arch, size, {}, marks=pytest.mark.slow)
    for arch, size in (("exlm_smiles", 230), ("exlm_base", 50_260))
]


@pytest.mark.parametrize(("arch", "size", "flags"), CASES, ids=str)
def test_states_of_the_lattice_differ_at_first_whatever_the_other_settings(arch, size, flags):
    """And at the paper's sizes. All alike by the transitions; what they predict differs by what trainings ask
    for, 0.5 bits."""
    states, divergence = measured(arch, builders.dictionary(size), **flags)
    assert states > 0.95 * flags.get("ext_state_num", 4) and divergence > 0.5


def test_state_embeddings_are_the_only_parameters_that_the_flag_adds():
    assert measured("exlm_base", WORDS, **builders.SMALL, state_embedding_scale=0.0)[1] < 0.01
    plain, model = (builders.exlm(WORDS, state_embedding_scale=scale).state_dict() for scale in (0.0, 0.5))
    assert model.keys() - plain.keys() == {"encoder.state_embedding", "encoder.state_bias"}
    assert model["encoder.state_embedding"].std().item() == pytest.approx(0.5, rel=0.2)
    assert 10 * model["encoder.state_bias"].std().item() == pytest.approx(1.0, rel=0.05)
