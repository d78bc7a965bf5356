"""Indexed datasets against fairseq's own builder."""

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import make_builder
from lib.corpora.indexed import indexed_dataset, sentence_positions


@pytest.mark.parametrize("entries", [65_499, 65_500])  # where ids become wider
def test_bytes_of_fairseq(entries, tmp_path):
    sentences = [np.arange(4, 9), np.array([2]), np.array([], int), np.arange(entries)[-7:]]
    builder = make_builder(str(tmp_path / "f.bin"), impl="mmap", vocab_size=entries)
    for sentence in sentences:
        builder.add_item(torch.from_numpy(sentence))
    builder.finalize(str(tmp_path / "f.idx"))
    with indexed_dataset(tmp_path / "shard0" / "train", entries) as dataset:
        dataset.add_sentences(sentences[:1])
        dataset.add_sentences([])
        dataset.add(np.concatenate(sentences[1:]), [1, 0, 7])
    for suffix in (".bin", ".idx"):
        ours = (tmp_path / "shard0" / "train").with_suffix(suffix)
        assert ours.read_bytes() == (tmp_path / f"f{suffix}").read_bytes()


def test_an_error_leaves_no_file(tmp_path):
    with pytest.raises(KeyboardInterrupt), indexed_dataset(tmp_path / "train", 9) as dataset:
        dataset.add(np.array([4, 2]), [2])
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_positions_beyond_2_gib():
    """fairseq's merge_file_ adds up sizes in 32 bits under NumPy 2."""
    sizes = np.full(5, 2**29, np.int32)
    first, start = sentence_positions(sizes[:3], 2, 0)
    second, end = sentence_positions(sizes[3:], 2, start)
    assert [*first.tolist(), *second.tolist()] == [i * 2**30 for i in range(5)] and end == 5 * 2**30
    assert first.dtype == np.int64
