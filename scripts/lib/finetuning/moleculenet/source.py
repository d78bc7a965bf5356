"""Molecules with labels from a table or from Uni-Mol's LMDBs; the columns of the seven sets of table 9, as
DeepChem distributes them."""

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path

import numpy as np
from lib.command_line import UserError
from lib.data.lmdb_reader import decode_value, lmdb_file, lmdb_items
from lib.data.molecules import TABLES, format_of
from lib.data.tables import SMILES_OPTION, TableFormat, cells_fault, column_of, table_rows
from lib.data.text_files import invalid_byte

from fs_plugins.files import naming_errors
from fs_plugins.finetuning.moleculenet.splits import NAMES, PARTS

MISSING = ("", "nan")  # labels in a table
MISSING_CLASS = -1.0  # missing label in an LMDB file
CLASSES = {"false": 0.0, "true": 1.0}
LARGEST, SMALLEST = float(np.finfo(np.float32).max), 2.0**-126  # normal float32
MOST_CLASSES = 1000
WANTED = {"classification": "0 or 1", "multiclass": "0, 1, 2, ...", "regression": "a float32"}
EMPTY_LINE = "empty line"
NO_LABEL = "not a label"  # how the fault of a row with other cells begins
LISTED = 10  # most rows listed in a message
# headers of the row numbers that pandas writes beside a table
IDENTIFIER = re.compile(r"(.*[_ ])?(id|cid|sid|cas|index|idx|no|nr|number|row)", re.IGNORECASE)
UNNAMED = re.compile(r"(Unnamed: \d+|__index_level_\d+__)?")


@dataclass(frozen=True)
class KnownSet:
    """A set of MoleculeNet; by default one of a user's own, whose columns are not named."""

    title: str = ""  # the paper's name
    labels: tuple[str, ...] = ()  # the columns of the labels; () for all others, but the ``ignored``
    ignored: tuple[str, ...] = ()
    smiles: str = "smiles"  # the column of the SMILES
    # Tox21 has 8 salts of aluminium that current releases of RDKit refuse and those of the paper's time read;
    # without them its 7,831 molecules, and so the split, would be others
    allow_valence: bool = False


# order of table 1
KNOWN = {
    "bace": KnownSet("BACE", ("Class",), smiles="mol"),
    "bbbp": KnownSet("BBBP", ("p_np",)),
    "tox21": KnownSet("Tox21", ignored=("mol_id",), allow_valence=True),
    "sider": KnownSet("SIDER"),
    "muv": KnownSet("MUV", ignored=("mol_id",)),
    "clintox": KnownSet("ClinTox", ("FDA_APPROVED", "CT_TOX")),
    "toxcast": KnownSet("ToxCast"),
}


@dataclass
class Molecule:
    """A molecule as it stands in its file, and what prepare_moleculenet.py makes of it."""

    line: int  # line of the file, the header being 1; in an LMDB file the number of the entry, from 1
    smiles: str
    labels: list[float]  # one for each property, NaN if missing
    split: str  # "train", "valid" or "test" if the source says so
    fault: str = ""  # why it cannot be used, if it cannot
    remarks: list[str] = field(default_factory=list)  # warnings
    written: str = ""  # the SMILES as the model gets it, of which ``tokens`` are the tokens
    tokens: list[str] = field(default_factory=list)
    canonical: str = ""  # RDKit's canonical SMILES, by which repeated molecules are found
    scaffold: str = ""


@dataclass(frozen=True)
class LabelFormat:
    """How to read cells as labels."""

    # labels of "classification" are 0 and 1, of "multiclass" 0, 1, 2, ..., and of "regression" numbers that
    # float32 can hold
    kind: str
    decimal: str = "."  # the decimal mark of numbers
    log: bool = False  # whether the labels are the decimal logarithms of the cells
    missing: tuple[str, ...] = ()  # how a missing label is written, besides MISSING; in any letter case

    def read(self, names: Sequence[str], cells: Sequence) -> tuple[list[float], str]:
        """Returns a label for each property, and which cells are none, else ""; their labels are missing."""
        labels, wrong = [], []
        for name, cell in zip(names, cells, strict=True):
            try:
                labels.append(self._of(str(cell).strip().lower()))
            except ValueError:
                labels.append(math.nan)
                wrong.append(f"{name} is {cell!r}")
        return labels, f"{NO_LABEL}: {', '.join(wrong)}" if wrong else ""

    def _of(self, text: str) -> float:
        if text in MISSING or text in map(str.lower, self.missing):
            return math.nan
        if self.decimal != ".":  # 1.000 may be a thousand
            text = text.replace(".", "?").replace(self.decimal, ".")
        label = CLASSES[text] if self.kind == "classification" and text in CLASSES else float(text)
        fits = {
            "classification": label in (0.0, 1.0),
            "multiclass": label in range(MOST_CLASSES),
            "regression": SMALLEST <= abs(label) <= LARGEST or label == 0,
        }[self.kind]
        if not fits or "_" in text:  # Python reads 1_000, which is nobody's number
            raise ValueError(text)
        return math.log10(label) if self.log else label

    def check(self, path: Path, molecules: Sequence[Molecule], skip_broken: bool = False) -> list[str]:
        """Raises UserError if a molecule has a cell that is not a label; lists the first of them. Or, with
        ``skip_broken``, such cells are left out, and molecules without another label. Returns what to say of
        cells that are limits."""
        wrong = [molecule for molecule in molecules if molecule.fault.startswith(NO_LABEL)]
        limits = sum(bool(re.search(r" is ['\"]\s*[<>≤≥]", molecule.fault)) for molecule in wrong)
        if skip_broken:
            for molecule in wrong:
                if not all(map(math.isnan, molecule.labels)):
                    molecule.remarks, molecule.fault = [molecule.fault], ""
        elif wrong:
            wanted = f"{'positive and ' * self.log}{WANTED[self.kind]}"
            listed = [
                f"  line {f'{row.line} {row.split}'.rstrip()}: {row.fault[:200]}" for row in wrong[:LISTED]
            ]
            words = Counter(re.findall(r" is '([^'\d]{1,12})'", " ".join(row.fault for row in wrong)))
            named = shlex.join(word for word, _ in words.most_common(4)) or "NA"
            raise UserError(
                f"{path} has {len(wrong):,} rows with cells that are neither {wanted} nor empty: choose the "
                "labels' columns (--label-columns), --kind regression for numbers, --decimal , for decimal "
                f"commas; name cells that stand for a missing label (--missing {named}); or leave such cells "
                "out with --skip-broken\n" + "\n".join(listed)
            )
        if not limits:
            return []
        return [
            f"{limits:,} rows had a limit, such as '>10', instead of a label: without them an end of the "
            "range is missing, and errors look smaller than they are; consider limits themselves as labels"
        ]


def read_table(
    path: Path,
    label_columns: Sequence[str],
    labels: LabelFormat,
    form: TableFormat,
    ignored: Sequence[str] = (),
    split_column: str | None = None,
) -> tuple[list[str], list[Molecule], list[str]]:
    """Returns the properties and the molecules of a table, and what to say of it; without ``label_columns``
    all other columns that have a name are labels. Raises UserError if a column is missing."""
    format_of(path, TABLES)
    rows = table_rows(path, form)
    _, header = next(rows)
    smiles_at = column_of(header, form.column, path, SMILES_OPTION)
    split_at = column_of(header, split_column, path, "--split-column") if split_column else None
    unnamed = [i for i, name in enumerate(header, 1) if UNNAMED.fullmatch(name)]
    other = {header[smiles_at], split_column, *ignored, *(header[i - 1] for i in unnamed)}
    names = list(label_columns) or [name for name in header if name not in other]
    at = [column_of(header, name, path, "--label-columns") for name in names]
    if len(set(at)) < len(at) or any(map(invalid_byte, names)):
        shown = ", ".join(map(ascii, names))
        raise UserError(f"{path}: the labels are {shown}: give each once, or --encoding if it is not UTF-8")
    molecules, remarks = [], []
    for line, cells in rows:
        molecule = Molecule(line, cells[smiles_at].strip() if smiles_at < len(cells) else "", [], "")
        molecule.fault = cells_fault(cells, header) if any(map(str.strip, cells)) else EMPTY_LINE
        if not molecule.fault:
            molecule.labels, molecule.fault = labels.read(names, [cells[i] for i in at])
            molecule.split = cells[split_at] if split_at is not None else ""
        molecules.append(molecule)
    if unnamed and not label_columns:
        shown = ", ".join(map(str, unnamed))
        remarks.append(f"column {shown} without a name (a row number?) is not a property, and was ignored")
    if not label_columns and (found := _identifiers(names, molecules)):
        remarks.append(
            f"{', '.join(found)} has another whole number in each row, or nearly: if it is an identifier, "
            "give the properties alone (--label-columns)"
        )
    return names, molecules, remarks


def _identifiers(names: Sequence[str], molecules: list[Molecule]) -> list[str]:
    """Returns the properties whose labels are whole numbers, nearly each another, or many and named so."""
    table = np.array([molecule.labels for molecule in molecules if molecule.labels]).reshape(-1, len(names))
    found = []
    for name, column in zip(names, table.T, strict=True):
        column = column[~np.isnan(column)]
        few = 0.5 if IDENTIFIER.fullmatch(name) else 0.95
        found.append(len(column) > 2 and not (column % 1).any() and len({*column}) >= few * len(column))
    return list(compress(names, found))


def read_lmdbs(folder: Path, names: Sequence[str], labels: LabelFormat) -> tuple[list[str], list[Molecule]]:
    """Returns the properties and the molecules of Uni-Mol's train.lmdb, valid.lmdb and test.lmdb, which do
    not have the properties' names: () for property-1, property-2, ...; -1 is a missing class."""
    names, rows = list(names), []
    for split in PARTS:
        path = lmdb_file(folder / f"{split}.lmdb")
        for number, (_, value) in enumerate(lmdb_items(path, by_number=True), start=1):
            try:
                molecule = decode_value(value)
            except ValueError as error:
                rows.append(Molecule(number, "", [], split, str(error)))
                continue
            with naming_errors(f"{path}, entry {number}"):
                cells = np.asarray(molecule["target"]).reshape(-1).tolist()
                names = names or [f"property-{i + 1}" for i in range(len(cells))]
                if labels.kind != "regression":
                    cells = ["" if cell == MISSING_CLASS else cell for cell in cells]
                values, fault = labels.read(names, cells)
            rows.append(Molecule(number, molecule["smi"], values, split, fault))
    return names, rows


def read_splits(path: Path, fold: int | None, molecules: Sequence[Molecule]) -> None:
    """Takes the molecules' parts from a JSON file such as chemprop's --splits-file: {"train": [0, 1, 4],
    "val": "2-3", "test": [5]}, or a list of such, of which ``fold`` counts. Rows are numbered from 0, without
    empty lines; those that it does not name are left out. Raises UserError for a row that does not exist, or
    in two parts."""
    with naming_errors(path):
        splits = json.loads(path.read_text(encoding="utf-8"))
        splits = splits if isinstance(splits, list) else [splits]
        if not 0 <= (fold or 0) < len(splits) or (fold is None and len(splits) > 1):
            raise UserError(f"{path} has {len(splits)} splits: give one as --fold 0 to {len(splits) - 1}")
        parts: dict[int, str] = {}
        for name, rows in splits[fold or 0].items():
            texts = rows.split(",") if isinstance(rows, str) else map(str, rows)
            for first, _, last in (text.strip().partition("-") for text in texts):
                for row in range(int(first), int(last or first) + 1):
                    if parts.setdefault(row, name) != name:
                        raise UserError(f"{path}: row {row} is in {parts[row]} and in {name}: give it once")
        rows = [molecule for molecule in molecules if molecule.fault != EMPTY_LINE]
        if parts and max(parts) >= len(rows):
            raise UserError(f"{path} has row {max(parts)}, the molecules are 0 to {len(rows) - 1}")
    for row, molecule in enumerate(rows):
        molecule.split = parts.get(row, "")
        if molecule.split.lower() not in NAMES:
            molecule.fault = molecule.fault or f"in no part of {path.name}"
