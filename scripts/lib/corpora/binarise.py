"""Binarises a corpus of any size for fairseq: streaming, parallel, resumable and deterministic.

``binarise`` reads files item by item, has worker processes encode blocks of items, and keeps what comes of
each file in FOLDER/draft; if interrupted, it resumes at the first file that is not done. Then it writes

    FOLDER/dict.txt         fairseq's dictionary, unless it is given
    FOLDER/SPLIT.bin, .idx  the sentences of train and valid, in the order of the input
    FOLDER/rejected.tsv     what was left out: file, line, reason, input
    FOLDER/prepared.json    what it all came to

All of these are the same, byte for byte, for any number of workers and interruptions.
"""

from __future__ import annotations

import argparse
import csv
import os
import pickle
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from lib.command_line import UserError, positive, share
from lib.files import atomic, claim, locked, write_json
from lib.preparing import check_absent, write_dataset
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from tqdm import tqdm

from fs_plugins.data.vocabulary import Vocabulary, read_dictionary

FINISHED = "prepared.json"
SPLITS = ("train", "valid")
DONE = "draft/*[0-9]"  # the files that are
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
        splits: {split: its sentences}; a sentence is a list of ids or, if the dictionary is built from the
            corpus, of symbols. It ends in ``</s>``, as from fairseq-preprocess; one of ``</s>`` alone is an
            empty sentence, and is kept.
        rejections: what was left out and why, in the order of the input.
        counts: anything else worth adding up over all blocks and reporting, by name.
    """

    splits: dict[str, list[list]]
    rejections: list[Rejection] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


Reader = Callable[[Path], Iterable]  # reads a file as items; each has a ``size`` in bytes
Encoder = Callable[[Path, list], EncodedBlock]  # makes sentences of consecutive items of a file


@contextmanager
def draft_of(output: Path, settings: dict, inputs: dict[str, str]) -> Iterator[Path]:
    """A folder to fill, OUTPUT.partial, which becomes ``output`` if all goes well. Otherwise it stays, to
    resume in, if a file is done.

    Args:
        settings: all that a user chose and the result depends on, in JSON's types.
        inputs: what is read; see ``inputs_of``.

    Raises:
        UserError: if ``output`` exists, another run is at work, or OUTPUT.partial is of other settings or
            inputs, each of which is named.
    """
    check_absent(output)
    partial = output.with_name(f"{output.name}.partial")
    with locked(partial):
        claim(partial, settings, inputs, sys.argv, (DONE,))
        try:
            yield partial
        except BaseException:
            if not any(partial.glob(DONE)):
                shutil.rmtree(partial)
            raise
        (partial / "lock").unlink()
        partial.replace(output)


def binarise(
    folder: Path,
    files: Sequence[Path],
    read: Reader,
    encode: Encoder,
    workers: int = 1,
    build_dictionary: bool = False,
) -> dict:
    """Binarises a corpus; see above.

    Args:
        folder: of ``draft_of``, with a dict.txt unless that is to be built.
        files: each once.
        read, encode: are pickled for the workers; items are always the same ones in the same order. Both
            splits must get a sentence.
        workers: processes; 1 works in this one.
        build_dictionary: of the symbols that the encoder returns; otherwise it returns ids.

    Returns:
        What prepared.json holds: for each split its sentences and tokens, "rejected" by reason, "symbols"
        (entries of the dictionary with fairseq's four) and what the encoder counted.

    Raises:
        UserError: for what the user has to mend.
    """
    rejected, counts, symbols = Counter(), Counter(), Counter()
    drafts = {path: folder / "draft" / str(number) for number, path in enumerate(files)}
    (folder / "draft").mkdir(exist_ok=True)
    _encode({path: draft for path, draft in drafts.items() if not draft.exists()}, read, encode, workers)
    table = (folder / "rejected.tsv").open("w", encoding="utf-8", errors="backslashreplace", newline="")
    with table:
        rows = csv.writer(table, dialect="excel-tab", lineterminator="\n")
        rows.writerow(("file", "line", "reason", "input"))
        for source, block in _encoded(drafts):
            rows.writerows((source, *rejection) for rejection in block.rejections)
            # after the colon a reason is about the one input
            rejected.update(rejection.reason.split(":")[0] for rejection in block.rejections)
            counts.update(block.counts)
            for sentences in block.splits.values() if build_dictionary else ():
                symbols.update(chain.from_iterable(sentences))
    if build_dictionary:
        _dictionary_of(symbols).save(str(folder / "dict.txt"))
    dictionary, result = read_dictionary(folder / "dict.txt"), {}
    for split in SPLITS:
        sentences = chain.from_iterable(block.splits[split] for _, block in _encoded(drafts))
        if build_dictionary:
            sentences = (list(map(dictionary.index, sentence)) for sentence in sentences)
        count, tokens = write_dataset(folder / split, sentences, len(dictionary))
        result[split] = {"sentences": count, "tokens": tokens}
    shutil.rmtree(folder / "draft")
    if empty := [split for split in SPLITS if not result[split]["sentences"]]:
        why = "; ".join(f"{count:,} x {reason}" for reason, count in rejected.most_common())
        single = " The input is a single document: an empty line ends one, see --layout."
        raise UserError(
            f"nothing is left for {' and '.join(empty)}. Rejected: {why or 'nothing'}."
            + (single if counts["documents"] == 1 else "")
            + " Give more input, or another --valid or --valid-share"
        )
    result |= {"symbols": len(dictionary), "vocabulary": Vocabulary.read(folder).identity}
    result |= {"rejected": dict(rejected.most_common()), **counts}
    write_json(folder / FINISHED, result)
    return result


def inputs_of(files: dict[str, Iterable[Path]]) -> dict[str, str]:
    """Each option's files with size and time of change, for the manifest.

    Raises:
        UserError: if a file is given twice, whatever the path.
    """
    paths = [(option, path.resolve()) for option, given in files.items() for path in given]
    [(path, times)] = Counter(path for _, path in paths).most_common(1)
    if times > 1:
        raise UserError(f"{path} is given more than once")
    states = ((option, path, path.stat()) for option, path in paths)
    return {
        f"{option} {path}": f"{state.st_size} bytes, changed at {state.st_mtime_ns}"
        for option, path, state in states
    }


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
    """Writes the draft, the encoded blocks, of each file."""
    # bounded, in order; it notices workers that were killed, and they a parent that was
    data = _Encoding(list(drafts), read, encode)
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


def _dictionary_of(symbols: Counter):
    """fairseq's Dictionary of counted symbols: the most frequent first, then in order of characters."""
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    for symbol, count in sorted(symbols.items(), key=lambda item: (-item[1], item[0])):
        if symbol not in dictionary:  # </s> and its like are there from the start
            dictionary.add_symbol(symbol, n=count)
    return dictionary


def add_corpus_arguments(parser: argparse.ArgumentParser, what: str, valid_share: float) -> None:
    """--train, --valid, --valid-share and --workers.

    Args:
        what: is trained on, for the help.
    """
    # those that this process may use, if the system tells (Linux)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    add = parser.add_argument
    add("--train", type=Path, nargs="+", required=True, metavar="PATH", help=f"{what} to train on")
    add = parser.add_mutually_exclusive_group().add_argument
    add("--valid", type=Path, nargs="+", default=[], metavar="PATH", help=f"{what} to validate on")
    about = "without --valid: the share of --train to validate on, by hash (default: %(default)s)"
    add("--valid-share", type=share, default=valid_share, metavar="S", help=about)
    add = parser.add_argument
    add("--workers", type=positive, default=cores, metavar="N", help="(default: %(default)s)")


def show_result(result: dict, output: Path, what: str) -> None:
    """What a preparation came to.

    Args:
        result: of ``binarise``.
        what: a sentence is.
    """
    for split in ("train", "valid"):
        print(f"{split}: {result[split]['sentences']:,} {what}, {result[split]['tokens']:,} tokens")
    total = sum(result["rejected"].values())
    reasons = ", ".join(f"{count:,} x {reason}" for reason, count in result["rejected"].items())
    print(f"rejected: {total:,}" + (f" ({reasons}; see {output / 'rejected.tsv'})" if total else ""))
