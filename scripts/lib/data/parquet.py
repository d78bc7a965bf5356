"""Parquet files, in which the Hugging Face hub publishes data. pyarrow reads them, an optional dependency
(``pip install -e '.[parquet]'``)."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lib.command_line import UserError

from fs_plugins.files import naming_errors

PARQUET = ".parquet"
_SHARD = re.compile(r"-(\d+)-of-(\d+)$")


@contextmanager
def _opened(path: Path):
    from pyarrow.parquet import ParquetFile

    with naming_errors(path), ParquetFile(path) as file:
        yield file


def columns_of(path: Path, nested: bool = False) -> list[str]:
    """Returns the names of its columns; of those of lists and structures only if ``nested``."""
    with _opened(path) as file:
        return [field.name for field in file.schema_arrow if nested or not field.type.num_fields]


def class_names(path: Path, column: str) -> list[str]:
    """Returns the names of a column's classes, in the order of their numbers, as the hub stores them in the
    schema; [] if there are none."""
    with _opened(path) as file:
        about = json.loads((file.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))
        return about.get("info", {}).get("features", {}).get(column, {}).get("names", [])


def rows_of(path: Path, columns: Sequence[str]) -> Iterator[tuple]:
    """Yields the values of each row in these columns, a batch of rows in memory at a time; None for a missing
    one. Bytes, which some writers make of text, are read as UTF-8."""
    with _opened(path) as file:
        for batch in file.iter_batches(1024, columns=columns):
            chosen = [batch.column(name) for name in columns]
            texts = [one.cast("string") if "binary" in str(one.type) else one for one in chosen]
            yield from zip(*(column.to_pylist() for column in texts), strict=True)


def shards_of(folder: Path, split: str) -> list[Path]:
    """Returns the files of a split as the hub names them, SPLIT-00000-of-00002.parquet and so on, or
    SPLIT.parquet; [] if there are none. Raises UserError if one of several is missing."""
    paths = sorted(path for path in folder.glob(f"{split}*{PARQUET}") if _SHARD.sub("", path.stem) == split)
    for path in paths:
        if (shard := _SHARD.search(path.stem)) and int(shard[2]) != len(paths):
            raise UserError(f"{folder} has {len(paths)} of {int(shard[2])} files of {split}: download all")
    return paths
