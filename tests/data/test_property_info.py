"""Labels of molecules, read back."""

import numpy as np
import pytest

from fs_plugins.data.property_info import read_labels


@pytest.mark.parametrize("content", [b"", b"no array", None])
def test_damaged_labels(content, tmp_path):
    path = tmp_path / "test.labels.npy"
    np.save(path, np.zeros((8, 1), np.float32))
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    with pytest.raises(ValueError, match="test.labels.npy is damaged .*prepare the data again"):
        read_labels(path, 8, 1, True)
