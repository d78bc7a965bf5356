"""The folder that --task molecule_property reads.

molecules.json        properties (names, kind, mean and std of the training labels), how the SMILES were read,
                      the split, the sizes, the dictionary's fingerprint, the source and its SHA-256
dict.txt              the dictionary of the pre-training
SPLIT.bin, SPLIT.idx  tokens and </s> of each molecule, in fairseq's format; SPLIT is train, valid or test
SPLIT.labels.npy      float32 [molecules, properties], NaN where there is no label
SPLIT.tsv             line of the source and SMILES as tokenised, a molecule a line, in the same order
report.tsv            molecules that were skipped, or kept with a remark: line, part, status, reason, SMILES
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_builder

from recipes.checkpoints import plain_symbols
from recipes.moleculenet.encoding import Encoded, Report
from recipes.moleculenet.reading import InputError

OTHER_DICTIONARY = "prepare the data with the dict.txt of its pre-training"


@contextmanager
def new_folder(target: Path):
    """A folder to fill, which becomes ``target`` when all went well, and is removed if not.

    Raises:
        InputError: if ``target`` is there already, or cannot be made.
    """
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise InputError(f"{target} is there already: choose another folder, or remove it first")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise InputError(f"cannot write into {target.parent}: {error.strerror}") from error
    try:
        yield partial
        os.chmod(partial, 0o755)
        if target.exists():
            target.rmdir()  # empty, see above
        os.replace(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def read_dictionary(path: Path) -> Dictionary:
    """The dictionary in ``path``, a dict.txt or its folder; without <mask>.

    Raises:
        InputError: if it is not there or no dictionary.
    """
    path = path / "dict.txt" if path.is_dir() else path
    if not path.is_file():
        raise InputError(f"{path} is not there: --dict is the dict.txt of the pre-training, or its folder")
    try:
        dictionary = Dictionary.load(str(path))
    except (ValueError, RuntimeError, UnicodeError) as error:
        raise InputError(f"{path} is no dictionary of fairseq: {error}") from error
    if len(dictionary) == dictionary.nspecial:
        raise InputError(f"{path} is empty: --dict is the dict.txt of the pre-training")
    return dictionary


def dictionary_symbols(path: Path) -> tuple[Path, list[str]]:
    """The dict.txt that ``read_dictionary`` takes, and its symbols without the special ones and <mask>.

    Raises:
        InputError: as ``read_dictionary``.
    """
    dictionary = read_dictionary(path)
    symbols = plain_symbols(dictionary.symbols, dictionary.nspecial)
    return path / "dict.txt" if path.is_dir() else path, symbols


def write_split(folder: Path, name: str, molecules: Sequence[Encoded], dictionary: Dictionary) -> dict:
    """Writes one part.

    Returns:
        ``molecules`` and ``longest``, the most tokens of a molecule with <s> and </s>.
    """
    builder = make_builder(str(folder / f"{name}.bin"), "mmap", vocab_size=len(dictionary) + 1)
    for molecule in molecules:
        indices = [dictionary.index(token) for token in molecule.tokens]
        builder.add_item(torch.tensor([*indices, dictionary.eos()]))
    builder.finalize(str(folder / f"{name}.idx"))
    labels = np.array([molecule.row.labels for molecule in molecules], dtype=np.float32)
    np.save(folder / f"{name}.labels.npy", labels)
    write_tsv(folder / f"{name}.tsv", ("line", "smiles"), ((m.row.line, m.smiles) for m in molecules))
    return {"molecules": len(molecules), "longest": 2 + max(len(m.tokens) for m in molecules)}


def write_tsv(path: Path, header: Sequence[str], rows: Iterable[Sequence]) -> None:
    """Tabs and line ends inside cells become spaces."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in (header, *rows):
            file.write("\t".join(" ".join(str(cell).split()) for cell in row) + "\n")


def write_report(folder: Path, report: Report) -> None:
    header = ("line", "part", "status", "reason", "smiles")
    write_tsv(folder / "report.tsv", header, sorted(report.entries, key=lambda entry: entry[0]))


def write_json(path: Path, content) -> None:
    """Whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, path)


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
