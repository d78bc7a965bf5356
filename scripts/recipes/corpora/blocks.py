"""What goes in and out of a binarisation: blocks of input, and what an encoder makes of each.

A corpus is cut into blocks by its content alone, never by the number of workers, so the result cannot depend
on who works on what. A block is small (some thousands of records): a pool holds a few of them at a time.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import locking
import numpy as np


class PreparationError(Exception):
    """Something that the user has to mend; the message says what, and how."""


class Record(NamedTuple):
    """One piece of input: a line of text, the SMILES of a row, ..."""

    place: str  # number of the line from 1, or key: where a person finds it in its file
    content: bytes  # as it stands in the file; decoding it is the encoder's work
    fault: str = ""  # why the reader could not get at the content; such a record is to be rejected


class Rejection(NamedTuple):
    """A piece of input that is left out; a row of rejected.tsv."""

    place: str
    reason: str
    content: str


@dataclass(frozen=True)
class Block:
    """Consecutive input of one file; pickled on its way to a worker.

    Attributes:
        source: the file, as rejected.tsv names it.
        payload: what the encoder reads: a list of Records, or what it needs to fetch them from the file
            itself.
        identity: bytes that differ whenever the payload's content does; parts are recognised by it.
        weight: the block's share of the progress, in bytes of input.
    """

    source: str
    payload: Any
    identity: bytes
    weight: int = 0


@dataclass
class EncodedBlock:
    """What an encoder makes of a block.

    Attributes:
        splits: {split: sentences}, each an integer array [T] of token ids with the end-of-sentence symbol, in
            the order of the input. An array of that symbol alone, or an empty one, is an empty sentence, and
            is kept.
        rejections: what was left out and why, in the order of the input.
        symbols: the tokens that the ids stand for, this block's own: id i is ``symbols[i]``, and the
            dictionary is made of all blocks' symbols. None where ids are those of a given dictionary.
        counts: anything else worth adding up over all blocks and telling the user, by name.
    """

    splits: dict[str, list[np.ndarray]]
    rejections: list[Rejection] = field(default_factory=list)
    symbols: list[str] | None = None
    counts: dict[str, int] = field(default_factory=dict)


# An encoder is pickled once for each worker: a function of a module, or an object with __call__.
Encoder = Callable[[Block], EncodedBlock]


def locked(output: Path) -> contextlib.AbstractContextManager[None]:
    """Makes a folder, and holds it for this run.

    Raises:
        PreparationError: if it cannot be made, or another run holds it.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PreparationError(
            f"cannot make the folder {output} ({error.strerror}): choose another for the result"
        ) from error
    return locking.locked(output / ".lock", PreparationError)


def write_atomically(path: Path, write: Callable[[Any], None]) -> None:
    """Calls ``write`` with a binary file, which gets its name only when all of it is on the disk.

    Raises:
        PreparationError: if the disk is full, or does not let it.
    """
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(fresh, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError as error:
        raise explained(error, path) from error
    finally:
        with contextlib.suppress(OSError):  # a file system that cannot be written to holds none either
            fresh.unlink(missing_ok=True)


def explained(error: OSError, path: Path) -> PreparationError:
    """What the system says of a file, with what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return PreparationError(
            f"no space left on the disk of {path.parent} ({error.strerror}). Nothing half-written counts: "
            "make room, and give the same command again"
        )
    return PreparationError(
        f"{path}: {error.strerror or error}. Nothing half-written counts: mend that, and give the same "
        "command again, or choose another folder for the result"
    )
