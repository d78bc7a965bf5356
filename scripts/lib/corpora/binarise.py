"""Binarises a corpus of any size for fairseq: streaming, parallel, resumable and deterministic.

``binarise`` reads files item by item, has worker processes encode blocks of items, and keeps the results of
each file in OUTPUT/draft, in the order of the input; if interrupted, rerunning it resumes at the first file
that is not done. The draft becomes

    OUTPUT/dict.txt         fairseq's dictionary
    OUTPUT/SPLIT.bin, .idx  the sentences of train and valid, in the order of the input
    OUTPUT/rejected.tsv     what was left out: file, line, reason, input
    OUTPUT/prepared.json    what it all came to; written last, so it marks a complete folder

All of these are the same, byte for byte, for any number of workers and interruptions.
"""

from __future__ import annotations

import csv
import io
import pickle
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from tqdm import tqdm

from lib.command_line import UserError
from lib.corpora.indexed import indexed_dataset
from lib.dictionaries import read_dictionary
from lib.files import MANIFEST, atomic, claim, locked, read_json, write_json

FINISHED = "prepared.json"
SPLITS = ("train", "valid")
SENTENCES = tuple(f"{split}.{end}" for split in SPLITS for end in ("bin", "idx"))
RESULTS = (FINISHED, *SENTENCES, "dict.txt", "rejected.tsv")
BLOCK_ITEMS, BLOCK_BYTES = 4096, 1 << 19


class Rejection(NamedTuple):
    """A piece of input that is left out; a row of rejected.tsv."""

    place: str  # line number from 1, or key: where to find it in its file
    reason: str
    content: str


@dataclass
class EncodedBlock:
    """What an encoder makes of a block.

    Attributes:
        splits: {split: its sentences}, of :func:`lib.corpora.indexed.packed`; sentences end in the
            end-of-sentence symbol, as from fairseq-preprocess. One of that symbol alone is an empty
            sentence, and is kept.
        rejections: what was left out and why, in the order of the input.
        symbols: the block's own tokens: id i is ``symbols[i]``, and the dictionary is built from the symbols
            of all blocks. None if the ids are those of a given dictionary.
        counts: anything else worth adding up over all blocks and reporting, by name.
    """

    splits: dict[str, tuple[np.ndarray, np.ndarray]]
    rejections: list[Rejection] = field(default_factory=list)
    symbols: list[str] | None = None
    counts: dict[str, int] = field(default_factory=dict)


# reads a file as items, always the same ones in the same order; each has a ``size`` in bytes
Reader = Callable[[Path], Iterable[Any]]
# makes sentences of consecutive items of a file
Encoder = Callable[[Path, list], EncodedBlock]


def binarise(
    output: Path,
    settings: dict,
    inputs: dict[str, str],
    files: Sequence[Path],
    read: Reader,
    encode: Encoder,
    *,
    dictionary: Path | None = None,
    workers: int = 1,
    overwrite: bool = False,
) -> dict:
    """Binarises a corpus; see above.

    Args:
        output: the folder; made if it does not exist.
        settings: all that a user chose and the result depends on, in JSON's types.
        inputs: what was read, by name: see ``states_of`` and the contract in lib/files.py. A folder
            begun with other settings or inputs is refused.
        files: each once.
        read, encode: are pickled for the workers. Both splits must get a sentence.
        dictionary: a dict.txt whose ids the encoder returns; it is copied.
        workers: processes; 1 works in this one.
        overwrite: begin anew, whatever the folder holds.

    Returns:
        What prepared.json holds: for each split its sentences and tokens, "rejected" by reason, "symbols"
        (entries of the dictionary with fairseq's four) and what the encoder counted.

    Raises:
        UserError: for what the user has to mend.
    """
    draft = output / "draft"
    with locked(output, "OUTPUT"):
        if overwrite:  # first what makes the folder look complete
            for name in (FINISHED, MANIFEST, *RESULTS):
                (output / name).unlink(missing_ok=True)
            shutil.rmtree(draft, ignore_errors=True)
        results = (*RESULTS, "draft/[0-9]*")
        claim(output, settings, inputs, sys.argv, results, "OUTPUT, use --overwrite")
        if (result := read_json(output / FINISHED)) is not None:
            return result
        draft.mkdir(exist_ok=True)
        drafts = {path: draft / str(number) for number, path in enumerate(files)}
        _encode(drafts, read, encode, workers)
        result = _finish(output, drafts, dictionary)
        write_json(output / FINISHED, result)
        shutil.rmtree(draft)
    return result


def states_of(files: dict[str, Iterable[Path]]) -> dict[str, str]:
    """Size and time of change of each option's files, for ``inputs``: a change of the input is noticed.

    Raises:
        UserError: if a file is given twice, whatever the path.
    """
    states, seen = {}, set()
    for option, paths in files.items():
        for path in paths:
            state, resolved = path.stat(), path.resolve()
            if resolved in seen:
                raise UserError(f"{resolved} is given more than once")
            seen.add(resolved)
            states[f"{option} {resolved}"] = f"{state.st_size} bytes, changed at {state.st_mtime_ns}"
    return states


class _Encoding(IterableDataset):
    """(file, items, pickled EncodedBlock) of each block; or what the user has to mend, as an error that was
    raised in a worker would get a traceback in its message."""

    def __init__(self, files: Sequence[Path], read: Reader, encode: Encoder):
        self.files, self.read, self.encode = files, read, encode

    def __iter__(self):
        worker = get_worker_info()  # N workers read all, and encode every N-th block each
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        blocks = ((path, block) for path in self.files for block in _blocks(self.read(path)))
        try:
            for path, block in islice(blocks, first, None, step):
                yield path, len(block), pickle.dumps(self.encode(path, block))
        except UserError as error:
            yield error


def _blocks(items: Iterable) -> Iterator[list]:
    """Consecutive items, of bounded number and size; determined by the items alone."""
    held, size = [], 0
    for item in items:
        held.append(item)
        size += item.size
        if len(held) == BLOCK_ITEMS or size >= BLOCK_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _encode(drafts: dict[Path, Path], read: Reader, encode: Encoder, workers: int) -> None:
    """Writes the draft, the encoded blocks, of each file that has none yet."""
    data = _Encoding([path for path, draft in drafts.items() if not draft.exists()], read, encode)
    # bounded, in order; it notices workers that were killed, and they a parent that was
    loader = DataLoader(data, batch_size=None, num_workers=workers if workers > 1 else 0)
    try:
        with tqdm(unit=" items", unit_scale=True, disable=None) as bar:
            for path, blocks in groupby(map(_raised, loader), key=itemgetter(0)):
                with atomic(drafts[path], "wb") as file:
                    for _, items, block in blocks:
                        file.write(block)
                        bar.update(items)
    except RuntimeError as error:
        raise UserError(
            f"a worker was killed, most likely because memory ran out ({error}): rerun the same command with "
            "fewer --workers; it resumes"
        ) from error


def _raised(item):
    if isinstance(item, UserError):
        raise item
    return item


def _encoded(drafts: dict[Path, Path]) -> Iterator[tuple[Path, EncodedBlock]]:
    """All encoded blocks in the order of the input, each with its file."""
    for path, draft in drafts.items():
        if draft.exists():  # of an empty file there is none
            with draft.open("rb") as file:
                while file.peek(1):
                    yield path, pickle.load(file)


def _finish(output: Path, drafts: dict[Path, Path], path: Path | None) -> dict:
    """Writes the results; returns what FINISHED holds."""
    totals = {split: {"sentences": 0, "tokens": 0} for split in SPLITS}
    rejected, counts, symbols = Counter(), Counter(), Counter()
    with atomic(output / "rejected.tsv") as file:
        rows = csv.writer(file, dialect="excel-tab", lineterminator="\n")
        rows.writerow(("file", "line", "reason", "input"))
        for source, block in _encoded(drafts):
            for rejection in block.rejections:
                rejected[rejection.reason.split(":")[0]] += 1  # after the colon it is about the one input
                cells = (str(source), *rejection)
                rows.writerow([cell.encode(errors="backslashreplace").decode() for cell in cells])
            counts.update(block.counts)
            for split, (tokens, sizes) in block.splits.items():
                totals[split]["sentences"] += len(sizes)
                totals[split]["tokens"] += len(tokens)
                if block.symbols is not None:
                    found = np.bincount(tokens, minlength=len(block.symbols)).tolist()
                    symbols.update(dict(zip(block.symbols, found, strict=True)))
    if empty := [split for split in SPLITS if not totals[split]["sentences"]]:
        raise UserError(_nothing_in(empty, rejected, counts["documents"] == 1, output))
    dictionary, text = read_dictionary(path) if path else _dictionary_of(symbols), io.StringIO()
    with ExitStack() as stack:
        add = {s: stack.enter_context(indexed_dataset(output / s, len(dictionary))) for s in SPLITS}
        for _, block in _encoded(drafts):
            for split, (tokens, sizes) in block.splits.items():
                if block.symbols is not None:
                    tokens = np.array([dictionary.index(symbol) for symbol in block.symbols])[tokens]
                add[split](tokens, sizes)
    dictionary.save(text)
    with atomic(output / "dict.txt", "wb") as file:
        file.write(path.read_bytes() if path else text.getvalue().encode())
    return {**totals, "symbols": len(dictionary), "rejected": dict(rejected.most_common()), **counts}


def _nothing_in(empty: list[str], rejected: Counter, single: bool, output: Path) -> str:
    why = "; ".join(f"{count:,} x {reason}" for reason, count in rejected.most_common())
    return (
        f"nothing is left for {' and '.join(empty)}. Rejected: {why or 'nothing'}"
        + (f" (see {output / 'rejected.tsv'})." if rejected else ".")
        + " The input is a single document: an empty line ends one, see --layout." * single
        + " Give more input, or with --overwrite another --valid or --valid-share"
    )


def _dictionary_of(symbols: Counter):
    """fairseq's Dictionary of counted symbols: the most frequent first, then in order of characters."""
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    for symbol, count in sorted(symbols.items(), key=lambda item: (-item[1], item[0])):
        if symbol not in dictionary and count:  # </s> and its like are there from the start
            dictionary.add_symbol(symbol, n=count)
    return dictionary
