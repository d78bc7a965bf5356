"""The LMDB files in which Uni-Mol's data are published: a dictionary for each molecule, pickled.

Keys are counters in ASCII; values are pickles of a dict, sometimes compressed with gzip or zlib: ``smi`` in
the pre-training files; ``smi`` and ``target`` with NumPy arrays of coordinates in those of MoleculeNet.

A pickle is a program. This reader builds containers, numbers, strings and NumPy arrays and nothing else; it
skips RDKit's molecules, which some of the files also hold.
"""

import gzip
import io
import pickle
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fs_plugins.files import naming_errors

LMDB = (".lmdb", ".mdb")


class Unread:
    """Stands for an object of RDKit."""

    def __init__(self, *args):
        pass

    def __setstate__(self, state):
        pass


class _Dtype:
    """Stands for np.dtype: of plain numbers and strings only. Of its state only the byte order is used, as
    NumPy would believe a pickle that says that the items of an array are pointers to Python objects."""

    def __init__(self, name: str, *_):
        if not re.fullmatch(r"[fiubSU]\d+", name):
            raise pickle.UnpicklingError(f"an array of type {name!r}, which is not plain data")
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple):
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array(np.ndarray):
    """Stands for np.ndarray."""

    def __setstate__(self, state: tuple):
        _, shape, dtype, fortran, data = state
        array = _frombuffer(data, dtype, shape, "F" if fortran else "C")
        super().__setstate__((1, array.shape, array.dtype, fortran, bytes(data)))


def _frombuffer(data, dtype: _Dtype, shape: tuple[int, ...], order: str) -> np.ndarray:
    return np.ndarray(shape, dtype.dtype, data, order=order)


_ALLOWED = {
    ("builtins", "set"): set,
    ("_codecs", "encode"): lambda text, _: text.encode("latin1"),  # bytes in protocols 0 to 2
    ("numpy", "ndarray"): Unread,
    ("numpy", "dtype"): _Dtype,
}
for _name in ("core", "_core"):  # NumPy 1 and 2
    _ALLOWED |= {
        (f"numpy.{_name}.multiarray", "_reconstruct"): lambda *_: _Array((0,)),
        (f"numpy.{_name}.multiarray", "scalar"): lambda dtype, data: _frombuffer(data, dtype, (), "C")[()],
        (f"numpy.{_name}.numeric", "_frombuffer"): _frombuffer,
    }


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        module = {"__builtin__": "builtins"}.get(module, module)  # its name in protocols 0 to 2
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if module.split(".")[0] == "rdkit":
            return Unread
        raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is not plain data")


def decode_value(value: bytes) -> dict:
    """Returns the dictionary of one molecule; its ``smi`` is a string. Raises ValueError if the value is not
    a (compressed) pickle of a dict of plain data, or has no ``smi``."""
    with naming_errors("not a readable value"):  # broken pickles raise all kinds of errors
        if value[:2] == b"\x1f\x8b":
            value = gzip.decompress(value)
        elif value[:1] == b"\x78":  # zlib; a pickle begins with \x80 or, in protocol 0, with '('
            value = zlib.decompress(value)
        molecule = _PlainUnpickler(io.BytesIO(value)).load()
        smiles = molecule["smi"]
        smiles = (
            smiles.decode("utf-8", errors="backslashreplace") if isinstance(smiles, bytes) else smiles + ""
        )
        return {**molecule, "smi": str(smiles)}  # NumPy's strings are strings too


def lmdb_file(path: Path) -> Path:
    """Returns ``path``, or the file in it: LMDB's own layout is a folder with data.mdb."""
    return path / "data.mdb" if path.is_dir() else path


def lmdb_items(path: Path, by_number: bool = False) -> Iterator[tuple[bytes, bytes]]:
    """Yields (key, value) of an LMDB file, in the order of the file, which is that of the keys' bytes: b"0",
    b"1", b"10", ...; or, ``by_number``, in that of the keys as numbers. Raises ValueError if it is truncated,
    or has more or fewer entries than it says; one that is damaged within may end the process by a signal."""
    import lmdb

    options = {"readahead": False, "max_spare_txns": 1, "subdir": False, "readonly": True, "lock": False}
    with naming_errors(path), lmdb.open(str(path), **options) as file, file.begin() as transaction:
        there, whole = path.stat().st_size, (file.info()["last_pgno"] + 1) * file.stat()["psize"]
        if there < whole:
            raise ValueError(f"truncated, with {there:,} of at least {whole:,} bytes: download it again")
        items, left = transaction.cursor(), file.stat()["entries"]
        if by_number:
            keys = sorted(items.iternext(values=False), key=lambda key: (len(key), key))
            items = ((key, transaction.get(key)) for key in keys)
        for item in items:
            yield item
            left -= 1
        if left:
            raise ValueError(f"damaged, {abs(left):,} entries more or fewer than it says: download it again")
