"""Binarises a corpus for fairseq: processes write its sentences as text, which fairseq's binarizer reads.

FOLDER/dict.txt         fairseq's dictionary, unless it is given
FOLDER/SPLIT.bin, .idx  the sentences of train and valid, in the order of the input
FOLDER/rejected.tsv     what was left out: file, line, reason, input
FOLDER/prepared.json    how much it came to

All are the same, byte for byte, for any number of processes.
"""

import argparse
import csv
import itertools
import os
import signal
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data import Dictionary
from fairseq.tokenizer import tokenize_line
from lib.command_line import SEVERAL, UserError, counted, positive, share
from lib.files import plain_cell
from tqdm import tqdm

from fs_plugins.data.vocabulary import Vocabulary, read_dictionary
from fs_plugins.files import write_json

SPLITS = ("train", "valid")
CHUNK, AHEAD = 64, 4  # items that a process gets at a time; chunks of each process that wait


class Rejection(NamedTuple):
    """A piece of input that is left out; a row of rejected.tsv."""

    line: str  # number from 1, or key, in its file
    reason: str
    content: str


@dataclass
class Encoded:
    """What an encoder makes of an item: a molecule, or a document."""

    # sentences: ids or, if the dictionary is built of the corpus, symbols, between blanks; without ``</s>``
    lines: list[str] = field(default_factory=list)
    # of the content, in [0, 1): an item whose hash is below the share for validation is for that
    hash: float = 0.0
    rejections: list[Rejection] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)  # what else to report, by name


def binarise(
    folder: Path,
    train: Sequence[Path],
    valid: Sequence[Path],
    read: Callable[[Path], Iterable],
    encode: Callable[[Path, Any], Encoded],
    corpus: str,
    valid_share: float,
    workers: int = 1,
    build_dictionary: bool = False,
) -> dict:
    """Binarises a corpus; see above.

    Args:
        folder: has a dict.txt unless that is to be built.
        train, valid: files.
        read, encode: make items of a file, and sentences of an item; ``encode`` works in the processes.
        corpus: what it is of, to be recorded: "text" or "smiles".
        valid_share: without ``valid``, the share of ``train`` that is for validation, by ``hash``; at least
            the items of one hash are.
        workers: processes; 1 works in this one.
        build_dictionary: of the symbols that the encoder returns; otherwise it returns ids.

    Returns:
        What prepared.json holds: for each split its sentences and tokens, "rejected" by reason, how many
        molecules or documents of ``valid`` are in ``train`` too, "symbols" (entries of the dictionary with
        fairseq's four) and what the encoder counted.

    Raises:
        UserError: if nothing is left for a split, with the reasons.
    """
    texts = {split: folder / f"{split}.txt" for split in SPLITS}
    hashes = {split: array("d") for split in SPLITS}  # of each sentence
    rejected, counts, shown = Counter(), Counter(), []
    sources = [("valid", path) for path in valid] + [("train", path) for path in train]
    items = ((split, path, item) for split, path in sources for item in read(path))
    with ExitStack() as stack:
        files = {
            split: stack.enter_context(path.open("w", encoding="utf-8")) for split, path in texts.items()
        }
        table = stack.enter_context((folder / "rejected.tsv").open("w", encoding="utf-8", newline=""))
        rows = csv.writer(table, dialect="excel-tab", lineterminator="\n")
        rows.writerow(("file", "line", "reason", "input"))
        work = ((split, path, encode(path, item)) for split, path, item in items)
        if workers > 1:
            work = _encoded(items, encode, workers)
        for split, path, encoded in tqdm(work, unit=" items", unit_scale=True, disable=None):
            files[split].writelines(f"{line}\n" for line in encoded.lines)
            hashes[split].extend([encoded.hash] * len(encoded.lines))
            rows.writerows((path, *map(plain_cell, row)) for row in encoded.rejections)
            rejected.update(row.reason.split(":")[0] for row in encoded.rejections)
            shown += encoded.rejections[: 3 - len(shown)]
            counts.update(encoded.counts)
    repeated = np.intersect1d(hashes["train"], hashes["valid"]).size
    if not valid and hashes["train"]:
        _divide(texts, hashes, valid_share)
    for split in SPLITS:
        if not hashes[split]:
            reasons = "; ".join(f"{count:,} x {reason}" for reason, count in rejected.most_common())
            examples = "".join(f"\n  {row.content[:60]!r} ({row.line})" for row in shown)
            raise UserError(
                f"nothing is left for {split}: give more input, or --valid, as copies of one molecule or "
                f"document are not divided. Rejected: {reasons or 'nothing'}{examples}"
            )
    if build_dictionary:
        built = Dictionary()
        for path in texts.values():
            Dictionary.add_file_to_dictionary(str(path), built, tokenize_line, workers)
        built.finalize(padding_factor=1)  # the most frequent first, then in order of characters
        built.save(str(folder / "dict.txt"))
    dictionary, result = read_dictionary(folder / "dict.txt"), {"kind": corpus, "valid_share": valid_share}
    binarizer = VocabularyDatasetBinarizer(dictionary, already_numberized=not build_dictionary)
    for split, path in texts.items():
        prefix, entries = str(folder / split), len(dictionary)
        done = FileBinarizer.multiprocess_dataset(str(path), "mmap", binarizer, prefix, entries, workers)
        result[split] = {"sentences": done.num_seq, "tokens": done.num_tok}
        path.unlink()
    result |= {"symbols": len(dictionary), "vocabulary": Vocabulary.read(folder).identity}
    result |= {"rejected": dict(rejected.most_common()), "valid_in_train": repeated, **counts}
    write_json(folder / "prepared.json", result)
    return result


def _encoded(items: Iterator[tuple], encode: Callable, workers: int) -> Iterator[tuple[str, Path, Encoded]]:
    """Yields what processes make of the items, in their order. Raises UserError if one of them is killed, for
    which a Pool would wait."""
    chunks = iter(lambda: list(itertools.islice(items, CHUNK)), [])
    pool, pending = ProcessPoolExecutor(workers, initializer=_start, initargs=(encode,)), deque()
    try:
        for chunk in chunks:
            pending.append(pool.submit(_encode, chunk))
            if len(pending) > AHEAD * workers:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    except BrokenProcessPool:
        raise UserError("a process was killed, perhaps for its memory: give fewer --workers") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _start(encode: Callable) -> None:
    global _encoder  # of this process
    _encoder = encode
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which ends the process that reads
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _encode(items: list[tuple]) -> list[tuple[str, Path, Encoded]]:
    return [(split, path, _encoder(path, content)) for split, path, content in items]


def _divide(texts: dict[str, Path], hashes: dict[str, array], share: float) -> None:
    """Moves the sentences whose hash is below the share, or the least of all, from train to valid."""
    least, values = min(hashes["train"]), hashes["train"]
    hashes |= {split: array("d") for split in SPLITS}
    whole = texts["train"].rename(texts["train"].with_suffix(".whole"))
    with whole.open() as lines, texts["train"].open("w") as train, texts["valid"].open("w") as valid:
        for line, value in zip(lines, values, strict=True):
            for_valid = value < share or value == least
            (valid if for_valid else train).write(line)
            hashes["valid" if for_valid else "train"].append(value)
    whole.unlink()


def add_corpus_arguments(parser: argparse.ArgumentParser, what: str, valid_share: float) -> None:
    """Adds --train, --valid, --valid-share and --workers; ``what`` is trained on."""
    # cores that this process may use, if the system tells (Linux)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    add = parser.add_argument
    add("--train", type=Path, **SEVERAL, required=True, metavar="PATH", help=f"{what} to train on")
    add = parser.add_mutually_exclusive_group().add_argument
    add("--valid", type=Path, **SEVERAL, default=[], metavar="PATH", help=f"{what} to validate on")
    about = "without --valid: the share of --train to validate on, by hash (default: %(default)s)"
    add("--valid-share", type=share, default=valid_share, metavar="S", help=about)
    add = parser.add_argument
    add("--workers", type=positive, default=cores, metavar="N", help="(default: %(default)s)")


def files_given(**paths: Iterable[Path]) -> dict[str, str]:
    """Returns each file of --train and --valid with its size and the time of its last change, to be
    recorded."""
    files = [(option, path.resolve()) for option, given in paths.items() for path in given]
    return {
        f"--{option} {path}": f"{path.stat().st_size} bytes, {path.stat().st_mtime_ns}"
        for option, path in files
    }


def show_result(result: dict, output: Path, what: str) -> None:
    """Prints what ``binarise`` came to, each of whose sentences is a ``what``."""
    for split in SPLITS:
        sentences, tokens = result[split]["sentences"], result[split]["tokens"]
        print(f"{split}: {counted(sentences, what)}, {counted(tokens, 'token')}")
    if repeated := result["valid_in_train"]:
        print(f"warning: in --train and in --valid: {repeated:,}; validation is too good, leave them out")
    total = sum(result["rejected"].values())
    reasons = ", ".join(f"{count:,} x {reason}" for reason, count in result["rejected"].items())
    if total > sum(result[split]["sentences"] for split in SPLITS):
        print(f"warning: most of the input was rejected: are {what}s where they are looked for?")
    print(f"rejected: {total:,}" + (f" ({reasons}; see {output / 'rejected.tsv'})" if total else ""))
