"""Binarises a corpus of any size for fairseq: streaming, parallel, resumable and deterministic.

``binarise`` reads files item by item, has worker processes encode blocks of items, and keeps what comes of
each file in FOLDER/draft; if interrupted, it resumes at the first file that is not done. Then it writes

    FOLDER/dict.txt         fairseq's dictionary, unless it is given
    FOLDER/SPLIT.bin, .idx  the sentences of train and valid, in the order of the input
    FOLDER/rejected.tsv     what was left out: file, line, reason, input
    FOLDER/prepared.json    what it all came to

All of these are the same, byte for byte, for any number of workers and interruptions.
"""

import csv
import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import NamedTuple

from fairseq.data import Dictionary
from lib.command_line import UserError
from lib.data.datasets import write_dataset
from lib.files import MANIFEST, claim, plain_cell, sha256
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from tqdm import tqdm

from fs_plugins.data.vocabulary import Vocabulary, copy_dictionary, dictionary_file, read_dictionary
from fs_plugins.files import atomic, check_absent, locked, naming_errors, write_json

FINISHED = "prepared.json"
DONE = "draft/*[0-9]"  # the files that are
BLOCK_ITEMS, BLOCK_BYTES = 4096, 1 << 19


class Rejection(NamedTuple):
    """A piece of input that is left out; a row of rejected.tsv."""

    line: str  # number from 1, or key, in its file
    reason: str
    content: str


@dataclass
class EncodedBlock:
    """What an encoder makes of a block."""

    # lists of ids or, if the dictionary is built from the corpus, of symbols. Each ends in ``</s>``, as from
    # fairseq-preprocess; one of ``</s>`` alone is an empty sentence, and is kept.
    sentences: list[Sequence] = field(default_factory=list)
    # a hash of each sentence's content, in [0, 1): those below the share for validation are for that.
    # Sentences that belong together have one hash.
    hashes: list[float] = field(default_factory=list)
    # rows left out, with the reason, in the order of the input
    rejections: list[Rejection] = field(default_factory=list)
    # anything else worth adding up over all blocks and reporting, by name
    counts: dict[str, int] = field(default_factory=dict)

    def save(self) -> str:
        """Returns the block as a line of JSON, which says nothing but numbers and text."""
        return json.dumps(self.__dict__, separators=(",", ":")) + "\n"


Reader = Callable[[Path], Iterable]  # reads a file as items; each has a ``size`` in bytes
Encoder = Callable[[Path, list], EncodedBlock]  # makes sentences of consecutive items of a file


@contextmanager
def draft_of(
    output: Path, settings: dict, inputs: dict[str, str], dictionary: Path | None = None
) -> Iterator[Path]:
    """Yields a folder to fill, OUTPUT.partial, which becomes ``output`` if all goes well. Otherwise it stays,
    to resume in, if it existed before or a file is done. A given dictionary is an input, and copied into it.
    Raises UserError if ``output`` exists, another run is at work, or OUTPUT.partial is no draft or one of
    other settings or inputs (see ``claim``)."""
    check_absent(output)
    if dictionary:
        inputs = {**inputs, "--dictionary": sha256(dictionary_file(dictionary))}
    partial = output.with_name(f"{output.name}.partial")
    before = {path.name for path in partial.iterdir()} if partial.is_dir() else set()
    if before - {"lock"} and MANIFEST not in before:
        raise UserError(f"{partial} was not made by this script: choose another OUTPUT, or move it away")
    with locked(partial):
        claim(partial, settings, inputs, sys.argv, (DONE,))
        for path in partial.rglob("*.tmp"):  # left by a run that was killed
            path.unlink()
        try:
            if dictionary:
                copy_dictionary(dictionary, partial / "dict.txt")
            yield partial
        except BaseException:
            if not before and not any(partial.glob(DONE)):
                shutil.rmtree(partial)
            raise
        (partial / "lock").unlink()
        partial.replace(output)


def binarise(
    folder: Path,
    train: Sequence[Path],
    valid: Sequence[Path],
    read: Reader,
    encode: Encoder,
    corpus: str,
    valid_share: float,
    workers: int = 1,
    build_dictionary: bool = False,
) -> dict:
    """Binarises a corpus; see above.

    Args:
        folder: of ``draft_of``, with a dict.txt unless that is to be built.
        train, valid: files, each once.
        read, encode: are pickled for the workers; items are always the same ones in the same order.
        corpus: what it is of, to be recorded: "text" or "smiles".
        valid_share: without ``valid``, the share of ``train`` that is for validation, by ``hashes``; at least
            the sentences of one hash are.
        workers: processes; 1 works in this one.
        build_dictionary: of the symbols that the encoder returns; otherwise it returns ids.

    Returns:
        What prepared.json holds: for each split its sentences and tokens, "rejected" by reason, how many
        molecules or documents of ``valid`` are in ``train`` too, "symbols" (entries of the dictionary with
        fairseq's four) and what the encoder counted.
    """
    rejected, counts, symbols, least = Counter(), Counter(), Counter(), 1.0
    validated, repeated = set(), set()  # hashes of --valid, and those of them that train has, too
    files = {"valid": valid, "train": train}  # valid first: whether it is empty is soon known
    drafts = {path: folder / "draft" / str(number) for number, path in enumerate([*valid, *train])}
    (folder / "draft").mkdir(exist_ok=True)
    for split in ("valid", "train") if valid else ("train",):
        own = {path: drafts[path] for path in files[split]}
        _encode({path: draft for path, draft in own.items() if not draft.exists()}, read, encode, workers)
        if not any(block.hashes for block in _saved_in(*own.values())):
            _refuse_empty(split, folder, own.values())
    with atomic(folder / "rejected.tsv") as table:
        rows = csv.writer(table, dialect="excel-tab", lineterminator="\n")
        rows.writerow(("file", "line", "reason", "input"))
        for source, draft in drafts.items():
            for block in _saved_in(draft):
                rows.writerows((source, *map(plain_cell, row)) for row in block.rejections)
                rejected.update(reason_of(row.reason) for row in block.rejections)
                counts.update(block.counts)
                least = min([least, *block.hashes])
                if source in valid:
                    validated.update(block.hashes)
                else:
                    repeated.update(validated.intersection(block.hashes))
                if build_dictionary:
                    symbols.update(chain.from_iterable(block.sentences))
    if build_dictionary:
        built = Dictionary()
        for symbol, count in symbols.items():
            built.add_symbol(symbol, n=count)
        built.finalize(padding_factor=1)  # the most frequent first, then in order of characters
        with atomic(folder / "dict.txt") as file:
            built.save(file)
    dictionary, result = read_dictionary(folder / "dict.txt"), {"kind": corpus, "valid_share": valid_share}
    for split in ("train", "valid"):
        share, own = None if valid else (valid_share, least), [drafts[path] for path in files[split] or train]
        chosen = _chosen(split, own, share)
        if build_dictionary:
            chosen = ([dictionary.indices[symbol] for symbol in symbols] for symbols in chosen)
        sentences, tokens = write_dataset(folder / split, chosen, len(dictionary))
        if not sentences:
            _refuse_empty(split, folder, own)
        result[split] = {"sentences": sentences, "tokens": tokens}
    shutil.rmtree(folder / "draft")
    result |= {"symbols": len(dictionary), "vocabulary": Vocabulary.read(folder).identity}
    result |= {"rejected": dict(rejected.most_common()), "valid_in_train": len(repeated), **counts}
    write_json(folder / FINISHED, result)
    return result


def _chosen(split: str, drafts: list[Path], share: tuple[float, float] | None) -> Iterator[Sequence]:
    """Yields the sentences of a split: all of the drafts, or by ``share``: those whose hash is less, or the
    least of all, are for validation."""
    for block in _saved_in(*drafts):
        for sentence, value in zip(block.sentences, block.hashes, strict=True):
            if share is None or (value < share[0] or value == share[1]) == (split == "valid"):
                yield sentence


def _refuse_empty(split: str, folder: Path, drafts: Iterable[Path]) -> None:
    """Raises UserError, which says what became of the input; its draft is of no use to another command."""
    rejections = [row for block in _saved_in(*drafts) for row in block.rejections]
    shutil.rmtree(folder / "draft")
    reasons = Counter(reason_of(row.reason) for row in rejections).most_common()
    why = "; ".join(f"{count:,} x {reason}" for reason, count in reasons) or "nothing"
    shown = "".join(f"\n  {row.content[:60]!r} ({row.line})" for row in rejections[:3])
    raise UserError(
        f"nothing is left for {split}: give more input, or --valid, as copies of one molecule or document "
        "are not split; SMILES come first in a line, or in a column of a .csv. "
        f"Rejected: {why}{shown}"
    )


def reason_of(text: str) -> str:
    """Returns what is before the colon of a rejection's text: the rest is about the one input."""
    return text.split(":")[0]


class _Encoding(IterableDataset):
    """Yields (file, items, saved EncodedBlock) of each block; or what the user has to mend, as an error that
    was raised in a worker would get a traceback in its message."""

    def __init__(self, files: Sequence[Path], read: Reader, encode: Encoder):
        self.files, self.read, self.encode = files, read, encode

    def __iter__(self):
        worker = get_worker_info()  # N workers read all, and encode every N-th block each
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        blocks = (
            (path, block) for path in self.files for block in blocks_of(self.read(path), attrgetter("size"))
        )
        try:
            for path, block in islice(blocks, first, None, step):
                yield path, len(block), self.encode(path, block).save()
        except (ValueError, OSError) as error:
            yield error


def blocks_of(items: Iterable, size_of: Callable, most: int = BLOCK_BYTES) -> Iterator[list]:
    """Yields consecutive items: at most BLOCK_ITEMS, and no more of them once their sizes come to
    ``most``."""
    held, size = [], 0
    for item in items:
        held.append(item)
        size += size_of(item)
        if len(held) == BLOCK_ITEMS or size >= most:
            yield held
            held, size = [], 0
    if held:
        yield held


def _encode(drafts: dict[Path, Path], read: Reader, encode: Encoder, workers: int) -> None:
    """Writes the draft, the encoded blocks, of each file."""
    # bounded, in order; it notices workers that were killed, and they a parent that was
    data = _Encoding(list(drafts), read, encode)
    loader = DataLoader(data, batch_size=None, num_workers=workers if workers > 1 else 0)
    with tqdm(unit=" items", unit_scale=True, disable=None) as bar:
        for path, blocks in groupby(map(_raised, loader), key=itemgetter(0)):
            with atomic(drafts[path]) as file:
                for _, items, block in blocks:
                    file.write(block)
                    bar.update(items)


def _raised(item):
    if isinstance(item, Exception):
        raise item
    return item


def _saved_in(*drafts: Path) -> Iterator[EncodedBlock]:
    """Yields the encoded blocks of files."""
    for draft in (draft for draft in drafts if draft.exists()):  # an empty file has none
        with naming_errors(draft), draft.open() as file:
            for line in file:
                block = EncodedBlock(**json.loads(line))
                block.rejections = [Rejection(*rejection) for rejection in block.rejections]
                yield block
