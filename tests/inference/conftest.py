import pytest

from fs_plugins.inference import load


@pytest.fixture(scope="session")
def filling(save_checkpoint):
    """What an ExLM says of two masks, with samples."""
    explorer = load(save_checkpoint("exlm_base", ext_state_num=3))
    return explorer.fill("this is <mask> news , and I am <mask> to see it .", samples=4)
