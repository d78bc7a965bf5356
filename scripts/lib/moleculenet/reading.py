"""Molecules with labels from a CSV file or from Uni-Mol's LMDBs; the columns of the seven sets of table 9, as
DeepChem distributes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from lib.command_line import UserError
from lib.corpora.lmdb_reader import LmdbValueError, decode_value, lmdb_items
from lib.corpora.molecules import column_of, csv_rows
from lib.preparing import opened

from fs_plugins.data.molecule_splits import PARTS

MISSING = ("", "nan")  # labels in a CSV file
MISSING_CLASS = -1.0  # in an LMDB file


@dataclass(frozen=True)
class KnownSet:
    """A set of MoleculeNet.

    Attributes:
        title: the paper's name.
        smiles: the column of the SMILES.
        labels: the columns of the labels; () for all others, but the ``ignored``.
        allow_valence: Tox21 has 8 salts of aluminium that current releases of RDKit refuse and those of the
            paper's time read; without them its 7,831 molecules, and so the split, would be others.
    """

    title: str
    smiles: str
    labels: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    allow_valence: bool = False


# in the order of table 1
KNOWN = {
    "bace": KnownSet("BACE", "mol", ("Class",)),
    "bbbp": KnownSet("BBBP", "smiles", ("p_np",)),
    "tox21": KnownSet("Tox21", "smiles", (), ("mol_id",), allow_valence=True),
    "sider": KnownSet("SIDER", "smiles", ()),
    "muv": KnownSet("MUV", "smiles", (), ("mol_id",)),
    "clintox": KnownSet("ClinTox", "smiles", ("FDA_APPROVED", "CT_TOX")),
    "toxcast": KnownSet("ToxCast", "smiles", ()),
}
OTHER = KnownSet("", "smiles", ())  # the columns of a set of one's own, unless they are named


@dataclass
class Molecule:
    """A molecule as it stands in its file, and what prepare_moleculenet.py makes of it.

    Attributes:
        line: in the file, the header being 1; in an LMDB file the number of the entry, from 1.
        labels: one for each property, NaN if missing.
        split: "train", ... if the source says so.
        fault: why it cannot be used, if it cannot.
        remarks: what to be wary of.
        written: the SMILES as the model gets it, of which ``tokens`` are the tokens.
        canonical: RDKit's canonical SMILES, by which repeated molecules are found.
    """

    line: int
    smiles: str
    labels: list[float]
    split: str
    fault: str = ""
    remarks: list[str] = field(default_factory=list)
    written: str = ""
    tokens: list[str] = field(default_factory=list)
    canonical: str = ""
    scaffold: str = ""


def read_csv(
    path: Path,
    smiles_column: str,
    label_columns: Sequence[str] = (),
    ignored: Sequence[str] = (),
    classification: bool = True,
    split_column: str | None = None,
) -> tuple[list[str], list[Molecule]]:
    """The properties and the molecules of a CSV file, plain or gzip; without ``label_columns`` all other
    columns are labels.

    Raises:
        UserError: if it cannot be read, a column is missing, or a label is not one.
    """
    with opened(path) as file:
        lines = csv_rows(path, file)
        _, header = next(lines)
        smiles_at = column_of(header, smiles_column, path, "--smiles-column")
        split_at = column_of(header, split_column, path, "--split-column") if split_column else None
        other = {smiles_column, split_column, *ignored}
        names = list(label_columns) or [name for name in header if name not in other]
        if not names:
            raise UserError(f"{path} has no column of labels besides {smiles_column!r}")
        at = [column_of(header, name, path, "--label-columns") for name in names]
        rows = []
        for line, cells in lines:
            if not any(cell.strip() for cell in cells):
                rows.append(Molecule(line, "", [], "", "empty line"))
            elif len(cells) != len(header):
                fault = f"{len(cells)} cells, but the header has {len(header)}"
                rows.append(Molecule(line, cells[smiles_at] if smiles_at < len(cells) else "", [], "", fault))
            else:
                labels = _labels(names, [cells[i] for i in at], f"{path}, line {line}", classification)
                split = cells[split_at] if split_at is not None else ""
                rows.append(Molecule(line, cells[smiles_at].strip(), labels, split))
    return names, rows


def read_lmdbs(
    folder: Path, names: Sequence[str], classification: bool = True
) -> tuple[list[str], list[Molecule]]:
    """The properties and the molecules of Uni-Mol's train.lmdb, valid.lmdb and test.lmdb; -1 is a missing
    class.

    Args:
        names: of the properties; () for property-1, property-2, ..., as the files do not have them.

    Raises:
        UserError: if a file is missing or damaged, or a label is not one.
    """
    names, rows = list(names), []
    for split in PARTS:
        for number, (_, value) in enumerate(lmdb_items(folder / f"{split}.lmdb", by_number=True), start=1):
            where = f"{folder / split}.lmdb, entry {number}"
            try:
                molecule = decode_value(value)
            except LmdbValueError as error:
                rows.append(Molecule(number, "", [], split, str(error)))
                continue
            if "target" not in molecule:
                raise UserError(f"{where} has no labels under 'target': is this a file for pre-training?")
            cells = np.asarray(molecule["target"]).reshape(-1).tolist()
            names = names or [f"property-{i + 1}" for i in range(len(cells))]
            if len(cells) != len(names):
                raise UserError(f"{where}: {len(cells)} labels, but {len(names)} are expected")
            cells = ["" if classification and cell == MISSING_CLASS else cell for cell in cells]
            rows.append(
                Molecule(number, molecule["smi"], _labels(names, cells, where, classification), split)
            )
    return names, rows


def _labels(names: Sequence[str], cells: Sequence, where: str, classification: bool) -> list[float]:
    """A label for each property.

    Raises:
        UserError: for a cell that is not a label.
    """
    labels = []
    for name, cell in zip(names, cells, strict=True):
        text = str(cell).strip()
        try:
            label = math.nan if text.lower() in MISSING else float(text)
        except ValueError:
            label = math.inf
        if math.isinf(label) or (classification and label not in (0.0, 1.0) and not math.isnan(label)):
            wanted = "0, 1 or empty (--kind regression accepts any number)" if classification else "a number"
            hint = "; --label-columns names the labels"
            raise UserError(f"{where}, {name}: the label {cell!r} is not {wanted}{hint}")
        labels.append(label)
    return labels
