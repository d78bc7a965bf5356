from pathlib import Path

import pytest

from fs_plugins.analysis import load
from tests.integration import commands


@pytest.fixture(scope="session")
def pretrained(corpus, tmp_path_factory) -> Path:
    """The checkpoint of a few updates of ExLM, k = 3, on the corpus, by fairseq-train itself."""
    folder = tmp_path_factory.mktemp("pretrained")
    flags = ["--ext-state-num", 3, "--max-positions", 64, "--max-update", 12, "--sample-break-mode", "eos"]
    commands.train(*commands.pretraining(corpus, folder, *flags))
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def filling(save_checkpoint):
    """What an ExLM says of two masks, with samples."""
    explorer = load(save_checkpoint("exlm_base", ext_state_num=3))
    return explorer.fill("this is <mask> news , and I am <mask> to see it .", samples=4)
