"""Plans in this process, of toy inputs that are made once."""

import pytest
from recipes.flags import Flags
from recipes.plan.__main__ import planner
from recipes.plan.plan import Plan

from tests.recipes.plan import toys


@pytest.fixture(scope="session")
def toy_inputs(tmp_path_factory):
    """The folder that toys.py fills."""
    folder = tmp_path_factory.mktemp("toys").resolve()
    toys.make(folder)
    return folder


@pytest.fixture
def alone(monkeypatch):
    """A machine without GPUs, and not one of several processes, whatever the tests run under."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def plan(alone):
    """plan(KIND, WORD...) -> Plan."""

    def make(kind: str, *words) -> Plan:
        return planner(kind)(f"{kind}.sh", list(map(str, words)))

    return make


def flags_of(found: Plan) -> Flags:
    """All flags of a plan."""
    flags = Flags()
    for group in found.groups.values():
        flags |= group
    return flags


@pytest.fixture
def flags(plan):
    """flags(KIND, WORD...) -> the flags of a plan that is shown."""
    return lambda *words: flags_of(plan(*words, "--print"))
