"""Uni-Mol's LMDB files: what is in them comes out, and nothing in them is run."""

import gzip
import os
import pickle
import zlib

import numpy as np
import pytest
from lib.data.lmdb_reader import decode_value, lmdb_file, lmdb_items
from rdkit import Chem

from tests.support.builders import write_lmdb

MOLECULE = {
    "smi": "C/C=C\\C",
    "target": np.array([0.0, np.nan, 1.0]),
    "atoms": ["C", "C", "H"],
    "coordinates": [np.arange(9, dtype=np.float32).reshape(3, 3), np.zeros((3, 3), ">f8")],
    "more": {"id": np.int64(7), "set": {1, 2}, "bytes": b"\xff", "none": None, "name": np.str_("x")},
}
NUMPY_1 = pickle.dumps(MOLECULE, 2).replace(b"numpy._core.", b"numpy.core.")
PICKLES = [*(pickle.dumps(MOLECULE, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)), NUMPY_1]


@pytest.mark.parametrize("packed", PICKLES, ids=range(len(PICKLES)))
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zlib.compress], ids=["plain", "gzip", "zlib"])
def test_values_of_every_protocol(packed, pack):
    found, expected = decode_value(pack(packed)), pickle.loads(packed)
    np.testing.assert_equal(found, expected)
    for key in ("target", "coordinates"):
        for one, other in zip(found[key], expected[key], strict=True):
            assert one.dtype.str == other.dtype.str and one.tobytes() == other.tobytes()


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


EVIL = [Evil(os.system, "touch made_by_a_pickle"), Evil(eval, "open('made_by_a_pickle', 'w')")]
EVIL += [Evil(np.load, "made_by_a_pickle"), Evil(np.fromfile, "made_by_a_pickle")]
EVIL += [Evil(getattr, "x", "upper"), Evil(__import__, "this")]


@pytest.mark.parametrize("evil", EVIL, ids=lambda evil: evil.call[0].__name__)
def test_nothing_in_a_value_is_run(evil, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in (evil, {"smi": "C", "x": [evil]}, {"smi": "C", "x": np.array([evil, None])}):
        with pytest.raises(ValueError, match="not plain data"):
            decode_value(pickle.dumps(value))
    assert not (tmp_path / "made_by_a_pickle").exists()


def test_arrays_are_of_plain_items(tmp_path):
    """Whatever a pickle says of them, as NumPy would follow it to pointers."""
    for dtype in ("O", "V8", "M8[s]", [("x", "O")]):
        with pytest.raises(ValueError, match="not plain data"):
            decode_value(pickle.dumps({"smi": "C", "x": np.empty(1, dtype)}, 2))
    honest = pickle.dumps({"smi": "C", "x": np.arange(2.0)}, 2)
    # the end of a dtype's state: names, fields, size, alignment, flags
    flags = b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t"
    assert honest.count(flags) == 1
    forged = decode_value(honest.replace(flags, flags[:-2] + b"\x3ft"))["x"]  # flags: items are objects
    assert forged.dtype == np.float64 and not forged.dtype.hasobject and forged.tolist() == [0.0, 1.0]
    short = decode_value(pickle.dumps({"smi": "C", "x": np.array(["ab", "c"])}, 5))["x"]
    assert short.tolist() == ["ab", "c"]
    with pytest.raises(ValueError, match="too small"):
        decode_value(honest.replace(b"K\x02\x85", b"K\x09\x85"))  # nine items, as its shape says


def test_smiles_of_a_value():
    for smiles in (b"CCO", np.str_("CCO")):
        assert decode_value(pickle.dumps({"smi": smiles})) == {"smi": "CCO"}
    found = decode_value(pickle.dumps({"mol": Chem.MolFromSmiles("CCO"), "smi": "CCO"}))
    assert found["smi"] == "CCO" and not isinstance(found["mol"], Chem.Mol)


def test_a_file(tmp_path):
    values = [pickle.dumps({"smi": "C" * (i + 1)}) for i in range(12)]
    path = write_lmdb(tmp_path / "a.lmdb", values)
    items = list(lmdb_items(path))
    assert [key for key, _ in items] == sorted(str(i).encode() for i in range(12))  # "10" before "2"
    assert [value for _, value in items] == [values[int(key)] for key, _ in items]
    assert list(lmdb_items(path, by_number=True)) == [(str(i).encode(), v) for i, v in enumerate(values)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.lmdb"]  # no lock file beside it
    folder = tmp_path / "b.lmdb"  # LMDB's own layout
    folder.mkdir()
    path.rename(folder / "data.mdb")
    assert list(lmdb_items(lmdb_file(folder))) == items


def test_a_truncated_file(tmp_path):
    path = write_lmdb(tmp_path / "cut.lmdb", [pickle.dumps(MOLECULE)] * 500)
    os.truncate(path, int(path.stat().st_size * 0.99))
    with pytest.raises(ValueError, match="cut.lmdb: truncated"):
        next(lmdb_items(path))


def test_a_file_with_other_entries_than_it_says(tmp_path):
    path = write_lmdb(tmp_path / "a.lmdb", [pickle.dumps({"smi": "C" * (i + 1)}) for i in range(500)])
    with path.open("r+b") as file:
        file.seek(44 * 4096 + 12)
        file.write(b"\xff")
    with pytest.raises(ValueError, match="a.lmdb: damaged"):
        list(lmdb_items(path))
