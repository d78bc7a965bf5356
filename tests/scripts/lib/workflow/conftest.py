import pytest
from lib.data.glue_tasks import TASKS
from lib.workflow import settings


@pytest.fixture
def data(tmp_path):
    """Pre-training data, as far as it is looked at before a training."""
    made = tmp_path / "data-bin"
    made.mkdir()
    (made / "dict.txt").write_text("word 5\n")
    for split in ("train", "valid"):
        (made / f"{split}.bin").write_bytes(b"12")
    return made


@pytest.fixture
def glue(tmp_path, data):
    """GLUE, as far as it is looked at before a fine-tuning."""
    made = tmp_path / "glue-bin"
    for name in TASKS:
        inputs = made / f"{name}-bin" / "input0"
        inputs.mkdir(parents=True)
        (inputs.parent / "summary.json").write_text("{}")
        (inputs / "dict.txt").write_bytes((data / "dict.txt").read_bytes())
    return made


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"weights")
    return path


@pytest.fixture
def asked(tmp_path):
    """Settings by their names; the output is a folder of the test's."""

    def read(**given):
        return settings.read({"output": str(tmp_path / "out"), "gpus": 0, **given})

    return read
