"""Fields of config.json: ranges and defaults, and misspelt names."""

import pytest
from huggingface_hub import errors

from fs_plugins.huggingface.configuration_exlm import ExLMConfig
from fs_plugins.models.flags import EXLM_FLAGS

WHOLE = [flag for flag in EXLM_FLAGS if flag.config and flag.about.values.type is int]


@pytest.mark.parametrize("flag", WHOLE, ids=lambda flag: flag.name)
def test_whole_numbers_have_the_ranges_of_the_flags(flag):
    for value in (-2, -1, 0, 1, 2, 2**20, 2**20 + 1):
        try:
            ExLMConfig(**{"num_attention_heads": 1, "hidden_size": 8, flag.config: value})
            taken = True
        except errors.StrictDataclassFieldValidationError:
            taken = False
        except errors.StrictDataclassClassValidationError:  # with another field
            taken = True
        assert taken == flag.about.values.fits(value), value


def test_defaults_are_those_of_the_flags():
    flags = [flag for flag in EXLM_FLAGS if flag.config and flag.default is not None]
    defaults = {
        flag.config: flag.default != flag.about.inverted if flag.about.inverted else flag.default
        for flag in flags
    }
    differing = {name for name in defaults if ExLMConfig().to_dict()[name] != defaults[name]}
    assert differing == {"norm_first"}  # which exlm_base sets


@pytest.mark.parametrize(
    "wrong",
    [{"hidden_size": 30}, {"expand_from_layer": 13}, {"repeat_times": 2}, {"links_feature": "x"}]
    + [{name: 1} for name in ("num_state", "expand_from_layers", "norm_frist", "state_embedding_scales")],
)
def test_fields_that_do_not_go_together_or_are_misspelt(wrong):
    with pytest.raises((ValueError, errors.StrictDataclassError), match=next(iter(wrong))):
        ExLMConfig(**wrong)
