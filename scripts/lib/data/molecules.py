"""Files of molecules as records: lines of SMILES, tables, and Uni-Mol's LMDB files.

A row that cannot be read becomes a Record with a fault, and costs no other row.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lib.command_line import UserError
from lib.data.lmdb_reader import LMDB, lmdb_items
from lib.data.parquet import PARQUET
from lib.data.tables import (
    SMILES_OPTION,
    TableFormat,
    cells_fault,
    column_of,
    columns_named,
    separator_of,
    table_rows,
    text_of,
)
from lib.data.text_files import opened, refuse_pipe, suffix_of

LINES, NAMED_LINES, TABLES = (".txt",), (".smi", ".smiles"), (".csv", ".tsv", PARQUET)
TEXT_FORMATS = (*LINES, *NAMED_LINES, *TABLES)


class Record(NamedTuple):
    """A molecule of a file."""

    line: str  # number from 1, or key, in its file
    content: bytes  # the SMILES as in the file; the value of an LMDB file
    fault: str = ""  # why the reader could not get the content; such a record is to be rejected
    cells: Sequence[str] = ()  # cells of its row, or the SMILES and the name of its line

    @property
    def size(self) -> int:
        return len(self.content)


def format_of(path: Path, formats: Sequence[str] = (*TEXT_FORMATS, *LMDB)) -> str:
    """Returns one of ``formats``, by the file's name. Raises UserError for another name."""
    refuse_pipe(path)  # a pipe has no ending
    if (suffix := suffix_of(path)) in formats:
        return suffix
    raise UserError(f"{path} is none of {', '.join(formats)}: save a spreadsheet as .csv, molecules as .smi")


def header_of(path: Path, form: TableFormat) -> list[str]:
    """Returns the names of the cells of each record of a file: a table's columns, or those of a file of
    lines. Raises UserError if it has no column of SMILES."""
    return _open(path, form)[0]


def records_in(path: Path, form: TableFormat) -> Iterator[Record]:
    """Yields the records of a file, in order; of a table, those of a column. A .txt file is a table if its
    first line has the name of the column. Raises UserError if the file is of an unknown format, or lacks the
    column."""
    if format_of(path) in LMDB:
        for key, value in lmdb_items(path):
            yield Record(key.decode("ascii", "backslashreplace"), value)
        return
    header, index, rows = _open(path, form)
    for number, row in rows:
        content, fault = row[index].strip() if len(row) > index else "", ""
        if index and row and (fault := cells_fault(row, header)):  # one of them may be the molecule
            content = ",".join(row)
        yield Record(str(number), content.encode(errors="surrogateescape"), fault, row)


def _open(path: Path, form: TableFormat) -> tuple[list[str], int, Iterator[tuple[int, list[str]]]]:
    """Returns the names of a row's cells, the index of the SMILES, and (line, cells) of each row."""
    suffix = format_of(path, TEXT_FORMATS)
    is_table = suffix in TABLES
    if suffix in LINES and form.header:
        first = next(_lines(path, form), "")
        mark = form.separator or separator_of(first, form.column)
        is_table = bool(columns_named(form.column, [cell.strip().strip('"') for cell in first.split(mark)]))
    if is_table:
        rows = table_rows(path, form)
        _, header = next(rows)
        return header, column_of(header, form.column, path, SMILES_OPTION), rows
    lines = enumerate(_lines(path, form), 1)
    if suffix in LINES:
        return [form.column], 0, ((number, [text]) for number, text in lines)
    rows = ((number, [*text.split(maxsplit=1), "", ""][:2]) for number, text in lines)
    named = {form.column.lower(), f"#{form.column.lower()}"}  # a header
    return [form.column, "name"], 0, (row for row in rows if row[0] > 1 or row[1][0].lower() not in named)


def _lines(path: Path, form: TableFormat) -> Iterator[str]:
    """Yields the lines of a file without white space around them."""
    with opened(path) as file:
        yield from map(str.strip, text_of(file, form))
