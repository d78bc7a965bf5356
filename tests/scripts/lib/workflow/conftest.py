import pytest
from lib.glue import TASKS
from lib.workflow import settings

from tests.support.builders import write_file


@pytest.fixture
def data(tmp_path):
    """Pre-training data, as far as it is looked at before a training."""
    for name, content in (("dict.txt", "word 5\n"), ("train.bin", "12"), ("valid.bin", "12")):
        write_file(tmp_path / "data-bin" / name, content)
    return tmp_path / "data-bin"


@pytest.fixture
def glue(tmp_path, data):
    """GLUE, as far as it is looked at before a fine-tuning."""
    for name in TASKS:
        write_file(tmp_path / f"glue-bin/{name}-bin/summary.json", "{}")
        write_file(tmp_path / f"glue-bin/{name}-bin/input0/dict.txt", (data / "dict.txt").read_bytes())
    return tmp_path / "glue-bin"


@pytest.fixture
def checkpoint(tmp_path):
    return write_file(tmp_path / "model.pt", b"weights")


@pytest.fixture
def asked(tmp_path):
    """Settings by their names; the output is a folder of the test's."""
    return lambda **given: settings.read({"output": str(tmp_path / "out"), "gpus": 0, **given})
