import pytest

from fs_plugins.inference import load


@pytest.fixture(scope="session")
def graph(save_checkpoint):
    """What an ExLM makes of two masks."""
    model = load(save_checkpoint("exlm_base", ext_state_num=3))
    return model.graph("this is <mask> news , and I am <mask> to see it .")
