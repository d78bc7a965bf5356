"""Settings of config.json: types and ranges, misspelt names, and what transformers adds."""

import math
import re

import pytest
import torch

from fs_plugins.huggingface.configuration_exlm import CHOICES, NUMBERS, OPTIONAL, SIZES, ExLMConfig
from fs_plugins.models.flags import EXLM_FLAGS

STRANGE = ("--lr=1", "", -7, 1.5, math.nan, math.inf, True, [1], {"a": 1}, 10**30)
OTHERS = ("hidden_act", "classifier_activation", "links_features")


def fits(name: str, value) -> bool:
    """Of the strange values, those that a field may have."""
    return (name in CHOICES and value in CHOICES[name] and type(value) is bool) or (
        name == "initializer_range" and value == 1.5
    )


@pytest.mark.parametrize("name", [*SIZES, *NUMBERS, *CHOICES, *OTHERS])
def test_values_that_a_field_cannot_have(name):
    for value in [v for v in STRANGE if not fits(name, v)] + [None] * (name not in OPTIONAL):
        with pytest.raises(ValueError, match=name):
            ExLMConfig(**{name: value})


@pytest.mark.parametrize("flag", [flag for flag in EXLM_FLAGS if flag.config], ids=lambda flag: flag.name)
def test_ranges_are_those_of_the_flags(flag):
    values = [-2, -1, 0, 1, 2, 2**20, 2**20 + 1, 0.5, 1.5, True, *(flag.kind.choices or ("dag", "gelu"))]
    for value in values:
        if flag.name == "expand_from_layer" and value == -1:  # is exported as all layers
            continue
        try:
            field = flag.kind.to_config(value)
            back = flag.kind.from_config(field)
        except (LookupError, TypeError, AttributeError):
            continue
        if (type(back), back) != (type(value), value):  # not of its type
            continue
        try:
            ExLMConfig(**{"num_attention_heads": 1, "hidden_size": 8, flag.config: field})
            taken = True
        except ValueError as error:
            kinds = "a whole number|a number|one of|a list|an activation"  # else of another field, too
            taken = not re.match(f"{flag.config} must be ({kinds})", str(error))
        assert taken == flag.kind.fits(value), value


def test_defaults_are_those_of_the_flags():
    flags = [flag for flag in EXLM_FLAGS if flag.config and flag.default is not None]
    defaults = {flag.config: flag.kind.to_config(flag.default) for flag in flags}
    differing = {name for name in defaults if ExLMConfig().to_dict()[name] != defaults[name]}
    assert differing == {"norm_first"}  # which exlm_base sets


@pytest.mark.parametrize(
    "wrong",
    [{"hidden_size": 30}, {"expand_from_layer": 13}, {"repeat_times": 2}, {"links_features": []}]
    + [{name: 1} for name in ("num_state", "expand_from_layers", "norm_frist", "state_embeddings")],
)
def test_fields_that_do_not_go_together_or_are_misspelt(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ExLMConfig(**wrong)


def test_what_transformers_adds_stays(tmp_path):
    config = ExLMConfig(num_labels=5, problem_type="regression", dtype="float32", output_hidden_states=True)
    config.quantization_config = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    config.save_pretrained(tmp_path)
    back = ExLMConfig.from_pretrained(tmp_path)
    assert back.num_labels == 5 and back.dtype == torch.float32
    assert back.quantization_config["load_in_8bit"] and back.to_dict() == config.to_dict()
    ExLMConfig(num_states=None, links_features=[], repeat_times=2)
    ExLMConfig(**{"of_another_version": {"a": 1}, "_internal": 2, "use_cache": False})
