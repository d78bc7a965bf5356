"""A file gets its name when it is whole on the disk; else whatever had that name stays."""

import numpy as np
import pytest
import safetensors.torch
import torch

from fs_plugins.files import atomic
from tests.support.full_disk import at_each_write


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_file_gets_its_name_when_it_is_complete(mode, tmp_path):
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), atomic(path, mode) as file:
        file.write(b"half" if mode == "wb" else "half")
        raise KeyboardInterrupt
    assert path.read_text() == "before"
    with atomic(path, mode) as file:
        file.write(b"\xc3\xa9\n" if mode == "wb" else "é\n")
        assert path.read_text() == "before"
    assert path.read_bytes() == b"\xc3\xa9\n"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_disk_that_is_full_for_a_moment(tmp_path):
    def write(at):
        with atomic(tmp_path / "file") as file:
            file.writelines(f"{line}\n" for line in range(10_000))

    (tmp_path / "file").write_text("before")
    for _, error in at_each_write(tmp_path, write):
        whole = (tmp_path / "file").read_text()
        assert whole == "before" if error else whole.split() == [*map(str, range(10_000))]
        assert [file.name for file in tmp_path.iterdir()] == ["file"]


WHOLE = {
    "a.pt": lambda file: torch.save({"a": torch.ones(50)}, file),
    "a.npz": lambda file: np.savez(file, a=np.ones(50)),
    "a.safetensors": lambda file: file.write(safetensors.torch.save({"a": torch.ones(50)}, {"b": "c"})),
}


@pytest.mark.parametrize("name", WHOLE)
def test_an_index_is_read_back(name, tmp_path):
    path, write = tmp_path / name, WHOLE[name]
    with atomic(path, "wb") as file:
        write(file)
    whole = path.read_bytes()
    for damaged in (b"junk" + whole, whole[:-3], whole[: len(whole) // 2], b"", b"text"):
        with pytest.raises(OSError, match="only a part"), atomic(path, "wb") as file:
            file.write(damaged)
    with pytest.raises(OSError, match="only a part"), atomic(path, "wb") as file:
        write(file)
        file.truncate(len(whole) - 7)  # what was written last is lost
    assert path.read_bytes() == whole and len(list(tmp_path.iterdir())) == 1
    with atomic(tmp_path / "empty.safetensors", "wb") as file:
        file.write(safetensors.torch.save({}))
