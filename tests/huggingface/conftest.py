"""Exports of checkpoints of every kind, and transformers."""

import os
import sys

import pytest

from tests.models.test_parity import record  # noqa: F401  (a fixture)

# fairseq-fixed draws it in, transformers would import it, and it may not fit the installed torch
sys.modules.setdefault("torchaudio", None)


@pytest.fixture(scope="session")
def transformers(tmp_path_factory):
    """The library, offline, with a cache of its own."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path_factory.mktemp("hf_home"))}
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return transformers


@pytest.fixture(scope="session")
def load(transformers):
    """load(class name, folder, ...) -> a model, its tokenizer, or another thing of transformers'."""
    trust = {"trust_remote_code": True}
    return lambda name, folder, **more: getattr(transformers, name).from_pretrained(folder, **trust | more)
