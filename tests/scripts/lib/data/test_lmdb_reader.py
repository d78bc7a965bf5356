"""Uni-Mol's LMDB files: SMILES and labels come out, and nothing in them is run."""

import gzip
import os
import pickle
import zlib

import numpy as np
import pytest
from lib.data.lmdb_reader import decode_value, lmdb_items
from rdkit import Chem

from tests.support.builders import write_lmdb

MOLECULE = {"smi": "C/C=C\\C", "target": np.array([0.0, np.nan, 1.0]), "atoms": ["C", "C", "H"]}
MOLECULE["coordinates"] = [np.arange(9, dtype=np.float32).reshape(3, 3), np.zeros((3, 3), ">f8")]
MOLECULE["mol"] = Chem.MolFromSmiles("C/C=C\\C")
LABELS = [1, [0.5, 2], np.float32(0.5), np.array([1, 0], ">i8"), np.array([[1.5]]), np.array([True])]
NUMPY_1 = pickle.dumps(MOLECULE, 2).replace(b"numpy._core.", b"numpy.core.")
PICKLES = [*(pickle.dumps(MOLECULE, protocol) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)), NUMPY_1]


@pytest.mark.parametrize("packed", PICKLES, ids=range(len(PICKLES)))
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zlib.compress], ids=["plain", "gzip", "zlib"])
def test_values(packed, pack):
    found = decode_value(pack(packed))
    assert found["smi"] == "C/C=C\\C"
    np.testing.assert_equal(found["target"], [0.0, np.nan, 1.0])
    assert decode_value(pack(pickle.dumps({"smi": "C"}))) == {"smi": "C"}


@pytest.mark.parametrize("labels", LABELS, ids=repr)
def test_labels_of_every_kind(labels):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        found = decode_value(pickle.dumps({"smi": "C", "target": labels}, protocol))["target"]
        assert found == np.asarray(labels, float).reshape(-1).tolist()


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


EVIL = [Evil(os.system, "touch made_by_a_pickle"), Evil(eval, "open('made_by_a_pickle', 'w')")]
EVIL += [Evil(getattr, "x", "upper"), Evil(__import__, "this")]


@pytest.mark.parametrize("evil", EVIL, ids=lambda evil: evil.call[0].__name__)
def test_nothing_in_a_value_is_run(evil, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in (evil, {"smi": "C", "x": [evil]}, {"smi": "C", "target": np.array([evil, None])}):
        with pytest.raises(ValueError, match="not plain data"):
            decode_value(pickle.dumps(value))
    assert not (tmp_path / "made_by_a_pickle").exists()


def test_what_numpy_would_run_is_recorded(tmp_path, monkeypatch):
    """And an array of pointers is no array of numbers, whatever its pickle says."""
    monkeypatch.chdir(tmp_path)
    for evil in (Evil(np.load, "a"), Evil(np.fromfile, "a")):
        assert decode_value(pickle.dumps({"smi": "C", "x": evil})) == {"smi": "C"}
        with pytest.raises(ValueError, match="not a readable value"):
            decode_value(pickle.dumps({"smi": "C", "target": evil}))
    objects = pickle.dumps({"smi": "C", "target": np.array([1.0, 2.0])}, 2).replace(b"f8", b"O8")
    with pytest.raises(ValueError, match="not a readable value"):
        decode_value(objects)


def test_a_file(tmp_path):
    values = [pickle.dumps({"smi": "C" * (i + 1)}) for i in range(12)]
    path = write_lmdb(tmp_path / "a.lmdb", values)
    items = list(lmdb_items(path))
    assert [key for key, _ in items] == sorted(str(i).encode() for i in range(12))  # "10" before "2"
    assert [value for _, value in items] == [values[int(key)] for key, _ in items]
    assert list(lmdb_items(path, by_number=True)) == [(str(i).encode(), v) for i, v in enumerate(values)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.lmdb"]  # no lock file beside it


def test_a_truncated_file(tmp_path):
    path = write_lmdb(tmp_path / "cut.lmdb", [pickle.dumps(MOLECULE)] * 500)
    os.truncate(path, int(path.stat().st_size * 0.99))
    with pytest.raises(ValueError, match="cut.lmdb: truncated"):
        next(lmdb_items(path))
