"""Wrong fields of config.json; their ranges are those of checkpoints, in test_hostile_checkpoints.py."""

import pytest
from huggingface_hub import errors

from fs_plugins.huggingface.configuration_exlm import ExLMConfig


@pytest.mark.parametrize(
    "wrong",
    [{"hidden_size": 30}, {"expand_from_layer": 13}, {"repeat_times": 2}, {"links_feature": "x"}]
    + [{name: 1} for name in ("num_state", "expand_from_layers", "norm_frist", "state_embedding_scales")],
)
def test_fields_that_do_not_go_together_or_are_misspelt(wrong):
    with pytest.raises((ValueError, errors.StrictDataclassError), match=next(iter(wrong))):
        ExLMConfig(**wrong)
