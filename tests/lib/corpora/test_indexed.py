"""Indexed datasets against fairseq's own builder."""

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import make_builder
from lib.corpora.indexed import indexed_dataset, packed


@pytest.mark.parametrize("entries", [65_499, 65_500])  # where ids become wider
def test_bytes_of_fairseq(entries, tmp_path):
    sentences = [np.arange(4, 9), np.array([2]), np.array([], int), np.arange(entries)[-7:]]
    builder = make_builder(str(tmp_path / "f.bin"), impl="mmap", vocab_size=entries)
    for sentence in sentences:
        builder.add_item(torch.from_numpy(sentence))
    builder.finalize(str(tmp_path / "f.idx"))
    with indexed_dataset(tmp_path / "shard0" / "train", entries) as add:
        for some in (sentences[:1], [], sentences[1:]):
            add(*packed(some))
    for suffix in (".bin", ".idx"):
        ours = (tmp_path / "shard0" / "train").with_suffix(suffix)
        assert ours.read_bytes() == (tmp_path / f"f{suffix}").read_bytes()


def test_an_error_leaves_no_file(tmp_path):
    with pytest.raises(KeyboardInterrupt), indexed_dataset(tmp_path / "train", 9) as add:
        add(np.array([4, 2]), [2])
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_positions_beyond_2_gib(tmp_path):
    """fairseq's merge_file_ adds up sizes in 32 bits under NumPy 2."""
    with indexed_dataset(tmp_path / "train", 9) as add:
        add([], np.full(5, 2**29))  # as if their tokens were there
    positions = np.frombuffer((tmp_path / "train.idx").read_bytes()[-5 * 8 :], np.int64)
    assert positions.tolist() == [i * 2**30 for i in range(5)]
