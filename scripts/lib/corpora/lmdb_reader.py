"""The LMDB files in which Uni-Mol's data are published: a dictionary for each molecule, pickled.

Keys are counters in ASCII; values are pickles of a dict, sometimes compressed with gzip or zlib: ``smi`` in
the pre-training files; ``smi`` and ``target`` with NumPy arrays of coordinates in those of MoleculeNet.

    with LmdbFile(Path("train.lmdb")) as file:
        for value in file.values():
            molecule = decode_value(value)     # {"smi": "CCO", "target": array([0.])}

A pickle is a program. This reader builds containers, numbers, strings and NumPy arrays and nothing else; it
skips RDKit's molecules, which some of the files also hold.
"""

from __future__ import annotations

import gzip
import io
import pickle
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy._core import multiarray, numeric

from lib.command_line import UserError


class LmdbValueError(ValueError):
    """One value of a file cannot be read; others may."""


class Unread:
    """Stands for an object of RDKit."""

    def __init__(self, *args):
        pass

    def __setstate__(self, state):
        pass


def _latin1(text: str, encoding: str) -> bytes:
    """How pickles of protocols 0 to 2 write bytes: ``_codecs.encode(text, "latin1")``."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes are written as text in 'latin1', not in {encoding!r}")
    return text.encode("latin1")


_ALLOWED = {
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "bytearray"): bytearray,
    ("builtins", "complex"): complex,
    ("collections", "OrderedDict"): dict,
    ("_codecs", "encode"): _latin1,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}
for _name in ("core", "_core"):  # NumPy 1 and 2
    _ALLOWED |= {
        (f"numpy.{_name}.multiarray", "_reconstruct"): multiarray._reconstruct,
        (f"numpy.{_name}.multiarray", "scalar"): multiarray.scalar,
        (f"numpy.{_name}.numeric", "_frombuffer"): numeric._frombuffer,
    }


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        module = {"__builtin__": "builtins"}.get(module, module)  # its name in protocols 0 to 2
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if module.split(".")[0] == "rdkit":
            return Unread
        raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is not plain data")

    def persistent_load(self, pid):
        raise pickle.UnpicklingError("it refers to objects outside itself")


def decode_value(value: bytes) -> dict:
    """The dictionary of one molecule.

    Raises:
        LmdbValueError: if the value is not a (compressed) pickle of a dict of plain data.
    """
    try:
        if value[:2] == b"\x1f\x8b":
            value = gzip.decompress(value)
        elif value[:1] == b"\x78":  # zlib; a pickle begins with \x80 or, in protocol 0, with '('
            value = zlib.decompress(value)
        found = _PlainUnpickler(io.BytesIO(value)).load()
    except Exception as error:  # broken pickles raise all kinds
        raise LmdbValueError(f"not a readable value: {type(error).__name__}: {error}") from error
    if not isinstance(found, dict):
        raise LmdbValueError(f"not a readable value: a dict is expected, not {type(found).__name__}")
    return found


def smiles_of(molecule: dict) -> str:
    """The ``smi`` of a dictionary.

    Raises:
        LmdbValueError: if it has none.
    """
    smiles = molecule.get("smi")
    if isinstance(smiles, bytes):
        smiles = smiles.decode("utf-8", errors="backslashreplace")
    if not isinstance(smiles, str):  # NumPy's strings are strings too
        keys = ", ".join(map(repr, list(molecule)[:8]))
        raise LmdbValueError(f"no string under 'smi': the keys are {keys or 'none'}")
    return str(smiles)


class LmdbFile:
    """An LMDB file, open for reading; a process may open a file only once at a time.

    Raises:
        UserError: if it does not exist, is not LMDB, or is truncated.
    """

    def __init__(self, path: Path):
        import lmdb

        self.path = path
        if not path.is_file():
            raise UserError(f"{path} does not exist")
        try:
            self._environment = lmdb.open(
                str(path), subdir=False, readonly=True, lock=False, readahead=False, max_spare_txns=1
            )
        except lmdb.Error as error:
            raise UserError(f"{path} is not an LMDB file, or damaged: {error}") from error
        self._error = lmdb.Error
        # LMDB maps the file into memory: to read beyond its end would end the process.
        pages, size = self._environment.info()["last_pgno"] + 1, path.stat().st_size
        whole = pages * self._environment.stat()["psize"]
        if size < whole:
            self._environment.close()
            raise UserError(
                f"{path} is truncated: it has {size:,} of at least {whole:,} bytes; download or copy it again"
            )

    def __enter__(self) -> LmdbFile:
        return self

    def __exit__(self, *_) -> None:
        self._environment.close()

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) in the order of the file, which is that of the keys' bytes: b"0", b"1", b"10", ..."""
        with self._environment.begin() as transaction:
            yield from self._watched(transaction.cursor())

    def values(self) -> Iterator[bytes]:
        """All values in the order of their keys as numbers."""
        with self._environment.begin() as transaction:
            keys = transaction.cursor().iternext(values=False)
            keys = sorted(self._watched(keys), key=lambda key: (len(key), key))
            yield from self._watched(map(transaction.get, keys))

    def _watched(self, entries: Iterable) -> Iterator:
        try:
            yield from entries
        except self._error as error:
            raise UserError(f"{self.path} is damaged: {error}; download or copy it again") from error
