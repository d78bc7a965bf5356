"""Inputs of the trainings that the scripts resolve."""

import pytest

from tests.support import prepared


@pytest.fixture(scope="session")
def toy_inputs(tmp_path_factory):
    """The folder that support/prepared.py fills."""
    folder = tmp_path_factory.mktemp("toys").resolve()
    prepared.make(folder)
    return folder


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """A machine without GPUs, and not one of several processes, whatever the tests run under."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
