"""Files of molecules as records: lines of SMILES, tables, and Uni-Mol's LMDB files.

A row that cannot be read becomes a Record with a fault, and costs no other row.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lib.command_line import UserError
from lib.data.kinds import BOM, PACKED, bounded_lines, opened
from lib.data.lmdb_reader import LMDB, lmdb_items
from lib.data.parquet import PARQUET
from lib.data.tables import TableFormat, column_of, columns_named, is_utf16, separator_of, table_rows, text_of

LINES, NAMED_LINES, TABLES = (".txt",), (".smi", ".smiles"), (".csv", ".tsv", PARQUET)
TEXT_FORMATS = (*LINES, *NAMED_LINES, *TABLES)


class Record(NamedTuple):
    """A molecule of a file."""

    place: str  # line number from 1, or key: where to find it in its file
    content: bytes  # the SMILES as in the file; the value of an LMDB file
    fault: str = ""  # why the reader could not get the content; such a record is to be rejected
    cells: Sequence[str] = ()  # of its row, or the SMILES and the name of its line

    @property
    def size(self) -> int:
        return len(self.content)


def format_of(path: Path, formats: Sequence[str] = (*TEXT_FORMATS, *LMDB)) -> str:
    """One of ``formats``, by the file's name. Raises UserError for another name."""
    packed = path.suffix in PACKED
    suffix = (path.with_suffix("") if packed else path).suffix.lower()
    if suffix in formats and not (packed and suffix in (*LMDB, PARQUET)):
        return suffix
    known = ", ".join(formats)
    convert = f"; obabel '{path}' -O molecules.smi converts it" if suffix in (".sdf", ".mol2") else ""
    raise UserError(f"{path} has an unknown format: molecules are read from {known}{convert}")


def header_of(path: Path, form: TableFormat) -> list[str]:
    """The names of the cells of each record of a file: a table's columns, or those of a file of lines. Raises
    UserError if the file cannot be read, or has no column of SMILES."""
    kind = format_of(path, TEXT_FORMATS)
    if _is_table(path, kind, form):
        _, header = next(table_rows(path, form))
        column_of(header, form.column, path, "--smiles-column")
        return header
    return [form.column, "name"] if kind in NAMED_LINES else [form.column]


def records_in(path: Path, form: TableFormat, whole: bool = True) -> Iterator[Record]:
    """The records of a file, in order; of a table, those of a column, with the other cells if ``whole``. A
    .txt file is a table if its first line has the name of the column. Raises UserError if it does not exist,
    is damaged, of an unknown format, or lacks the column."""
    kind = format_of(path)
    if kind in LMDB:
        for key, value in lmdb_items(path):
            yield Record(key.decode("ascii", "backslashreplace"), value)
    elif _is_table(path, kind, form):
        yield from _table_records(path, form, whole)
    else:
        with opened(path) as file:
            for number, line in enumerate(_lines(path, file, form.encoding), 1):
                line = line.removeprefix(BOM) if number == 1 else line
                text = line.decode(errors="surrogateescape").strip()
                if "\r" in text:  # what follows would pass for a name
                    raise UserError(f"{path} has lines ending in \\r: tr '\\r' '\\n' < '{path}' > MOLECULES")
                words = [*text.split(maxsplit=1), "", ""][:2] if kind in NAMED_LINES else [text]
                is_header = number == 1 and words[0].removeprefix("#").lower() == form.column.lower()
                if kind not in NAMED_LINES or not is_header:
                    yield Record(str(number), words[0].encode(errors="surrogateescape"), "", words)


def _is_table(path: Path, kind: str, form: TableFormat) -> bool:
    if kind not in LINES:
        return kind in TABLES
    with opened(path) as file:
        line = next(_lines(path, file, form.encoding), b"").removeprefix(BOM)
    first = line.decode(errors="surrogateescape")
    mark = form.separator or separator_of(first, form.column)
    return bool(columns_named(form.column, [cell.strip().strip('"') for cell in first.split(mark)]))


def _lines(path: Path, file: BinaryIO, encoding: str | None) -> Iterator[bytes]:
    """The lines of a file in UTF-8."""
    if encoding is None and not is_utf16(file):
        yield from bounded_lines(file)  # a molecule that is cut is too long for RDKit
        return
    try:
        for line in text_of(file, encoding):
            yield line.encode()
    except UnicodeError as error:
        raise UserError(f"{path}: {error}: choose with --encoding") from error


def _table_records(path: Path, form: TableFormat, whole: bool) -> Iterator[Record]:
    rows = table_rows(path, form, None if whole else [form.column])
    _, header = next(rows)
    index = column_of(header, form.column, path, "--smiles-column")
    for number, row in rows:
        content, fault = row[index].strip() if len(row) > index else "", ""
        wrong = len(row) < len(header) or any(cell.strip() for cell in row[len(header) :])
        if row and (len(row) <= index or (index and wrong)):
            # another cell may be where the molecule should be
            fault = f"wrong number of cells: {len(row)}, but the header has {len(header)}"
            content = ",".join(row)
        yield Record(str(number), content.encode(errors="surrogateescape"), fault, row)
