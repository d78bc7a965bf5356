"""The LMDB files in which Uni-Mol's data are published: a dictionary for each molecule, pickled.

Keys are counters in ASCII; values are pickles, sometimes compressed with gzip or zlib: ``smi`` in the
pre-training files; ``smi`` and ``target`` in those of MoleculeNet. All else in them is left unread.
"""

import gzip
import io
import pickle
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from fs_plugins.files import naming_errors

LMDB = (".lmdb", ".mdb")
OBJECTS = ("numpy", "rdkit")  # packages whose objects are recorded


class _Record:
    """Stands for an object of NumPy's or RDKit's: how it would be made."""

    def __init__(self, name: str, *arguments):
        self.name, self.arguments, self.state = name, arguments, ()

    def __setstate__(self, state):
        self.state = state


class _Unpickler(pickle.Unpickler):
    """A pickle is a program; this one makes containers, numbers, strings and records, nothing else."""

    def find_class(self, module, name):
        if module.split(".")[0] in OBJECTS:
            return partial(_Record, name)
        if (module, name) == ("_codecs", "encode"):  # bytes in protocols 0 to 2
            return lambda text, _: text.encode("latin1")
        raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is not plain data")


def decode_value(value: bytes) -> dict:
    """Returns {"smi": SMILES} of one molecule, with {"target": its labels, a list} if it has any. Raises
    ValueError if the value is not a (compressed) pickle of a dict with a ``smi``, or refers to anything but
    data."""
    with naming_errors("not a readable value"):  # broken pickles raise all kinds of errors
        if value[:2] == b"\x1f\x8b":
            value = gzip.decompress(value)
        elif value[:1] == b"\x78":  # zlib; a pickle begins with \x80 or, in protocol 0, with '('
            value = zlib.decompress(value)
        molecule = _Unpickler(io.BytesIO(value)).load()
        labels = {"target": _numbers(molecule["target"])} if "target" in molecule else {}
        return {"smi": molecule["smi"] + "", **labels}  # a text, or a TypeError


def _numbers(value) -> list[float]:
    """Returns the numbers in a number, a list or the record of a NumPy array."""
    if not isinstance(value, _Record):
        several = isinstance(value, list | tuple)
        return [number for one in value for number in _numbers(one)] if several else [float(value)]
    if value.name == "_reconstruct":
        _, _, dtype, _, data = value.state
    elif value.name == "_frombuffer":
        data, dtype, *_ = value.arguments
    else:  # a scalar
        dtype, data = value.arguments
    order = dtype.state[1] if dtype.state[1] in "<>" else "="
    return np.frombuffer(data, np.dtype(dtype.arguments[0]).newbyteorder(order)).astype(float).tolist()


def lmdb_file(path: Path) -> Path:
    """Returns ``path``, or the file in it: LMDB's own layout is a folder with data.mdb."""
    return path / "data.mdb" if path.is_dir() else path


def lmdb_items(path: Path, by_number: bool = False) -> Iterator[tuple[bytes, bytes]]:
    """Yields (key, value) of an LMDB file, in the order of the file, which is that of the keys' bytes: b"0",
    b"1", b"10", ...; or, ``by_number``, in that of the keys as numbers. Raises ValueError if it is
    truncated."""
    import lmdb

    options = {"readahead": False, "max_spare_txns": 1, "subdir": False, "readonly": True, "lock": False}
    with naming_errors(path), lmdb.open(str(path), **options) as file, file.begin() as transaction:
        there, whole = path.stat().st_size, (file.info()["last_pgno"] + 1) * file.stat()["psize"]
        if there < whole:  # reading on would end the process
            raise ValueError(f"truncated, with {there:,} of at least {whole:,} bytes: download it again")
        items = transaction.cursor()
        if not by_number:
            yield from items
            return
        for key in sorted(items.iternext(values=False), key=lambda key: (len(key), key)):
            yield key, transaction.get(key)
