"""Parquet files, in which the Hugging Face hub publishes data. pyarrow reads them, an optional dependency."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lib.command_line import UserError

PARQUET = ".parquet"
_SHARD = re.compile(r"-(\d+)-of-(\d+)$")


@contextmanager
def _opened(path: Path):
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError:
        raise UserError(f"{path} needs pyarrow, which reads Parquet: pip install -e '.[parquet]'") from None
    if not path.is_file():
        raise UserError(f"{path} does not exist" if not path.exists() else f"{path} is not a file")
    try:
        with ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path} is not a Parquet file, or damaged ({error}): download it again") from error


def columns_of(path: Path, nested: bool = False) -> list[str]:
    """The names of its columns; of those of lists and structures only if ``nested``. Raises what
    :func:`rows_of` does."""
    with _opened(path) as file:
        return [field.name for field in file.schema_arrow if nested or not field.type.num_fields]


def class_names(path: Path, column: str) -> list[str]:
    """The names of a column's classes, in the order of their numbers, as the hub stores them in the schema;
    [] if there are none."""
    with _opened(path) as file:
        about = (file.schema_arrow.metadata or {}).get(b"huggingface", b"{}")
    try:
        names = json.loads(about)["info"]["features"][column]["names"]
        return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []
    except (ValueError, LookupError, TypeError):
        return []


def rows_of(path: Path, columns: Sequence[str] | None = None) -> Iterator[tuple]:
    """The values of each row in these columns, which exist (None: all), a batch of rows in memory at a time;
    None for a missing one. Raises UserError if the file does not exist or is damaged, two columns have one
    name, or pyarrow is not installed."""
    if twice := [name for name, times in Counter(columns or ()).items() if times > 1]:
        raise UserError(f"{path} has {twice[0]!r} more than once: rename one of these columns")
    with _opened(path) as file:
        for batch in file.iter_batches(1024, columns=columns):
            by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
            wanted = [by_name[name] for name in columns] if columns else batch.columns
            yield from zip(*map(_values, wanted), strict=True)


def _values(column) -> list:
    """Of a column of bytes, which some writers make of text, as of a file in UTF-8, with bytes that are none
    kept as Python's "surrogateescape" does; of dates beyond Python's the numbers."""
    try:
        values = column.to_pylist()
    except OverflowError:
        values = column.cast("int64").to_pylist()
    if "binary" not in str(column.type):
        return values
    return [value and value.decode(errors="surrogateescape") for value in values]


def shards_of(folder: Path, split: str) -> list[Path]:
    """The files of a split as the hub names them, SPLIT-00000-of-00002.parquet and so on, or SPLIT.parquet;
    [] if there are none. Raises UserError if one of several is missing."""
    paths = sorted(path for path in folder.glob(f"{split}*{PARQUET}") if _SHARD.sub("", path.stem) == split)
    for path in paths:
        if (shard := _SHARD.search(path.stem)) and int(shard[2]) != len(paths):
            raise UserError(
                f"{folder} has {len(paths)} files of {split}, but {path.name} is one of {int(shard[2])}: "
                "download the others too"
            )
    return paths
