"""Binarises a corpus of any size for fairseq: streaming, parallel, resumable and deterministic.

``binarise`` reads files as blocks, has worker processes encode each (``blocks.Encoder``), and appends the
results, in the order of the input, to a draft in OUTPUT/draft. At the end of a file it saves how far it got;
if interrupted, rerunning it resumes at the first file that is not done. The draft becomes

    OUTPUT/dict.txt         fairseq's dictionary
    OUTPUT/SPLIT.bin, .idx  the sentences of each split, in the order of the input
    OUTPUT/rejected.tsv     what was left out: file, line, reason, input
    OUTPUT/prepared.json    what it all came to; written last, so it marks a complete folder

All of these are the same, byte for byte, for any number of workers and interruptions.

Encoders with a given dictionary return its ids; without one they return ids of symbols of their own
(``EncodedBlock.symbols``), and dict.txt is built from those that occur. Sentences end in the end-of-sentence
symbol, as from fairseq-preprocess, which the encoder adds.
"""

from __future__ import annotations

import csv
import functools
import io
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from lib import folders
from lib.command_line import UserError
from lib.corpora.blocks import Block, EncodedBlock, Encoder, encode_packed
from lib.corpora.indexed import indexed_dataset
from lib.corpora.pool import in_order
from lib.dictionaries import read_dictionary
from lib.files import atomic, explained, read_json, write_json

FINISHED = "prepared.json"
SPLITS = ("*.bin", "*.idx", "shard*/*.bin", "shard*/*.idx", "shard*/dict.txt", "dict.txt", "rejected.tsv")
SAVE_SECONDS = 10.0  # at most this often; a corpus may have many small files
CHUNK = 1 << 24  # tokens


def binarise(
    output: Path,
    settings: dict,
    inputs: dict[str, str],
    files: Sequence[Path],
    blocks: Callable[[Path], Iterable[Block]],
    encode: Encoder,
    *,
    splits: tuple[str, ...] = ("train", "valid"),
    dictionary: Path | None = None,
    workers: int = 1,
    overwrite: bool = False,
) -> dict:
    """Binarises a corpus; see above.

    Args:
        output: the folder; made if it does not exist.
        settings: all that a user chose and the result depends on, in JSON's types.
        inputs: what was read, by name: see ``states_of`` and the contract in lib/folders.py. A folder
            begun with other settings or inputs is refused.
        blocks: reads a file as blocks, always the same ones in the same order.
        encode: makes sentences of a block; pickled once for each worker.
        splits: those to write; each must get a sentence at least.
        dictionary: a dict.txt whose ids the encoder returns; it is copied.
        workers: processes; 1 works in this one.
        overwrite: begin anew, whatever the folder holds.

    Returns:
        What prepared.json holds: for each split its sentences and tokens, "rejected" by reason, "symbols"
        (entries of the dictionary with fairseq's four) and what the encoder counted.

    Raises:
        UserError: for what the user has to mend.
    """
    settings = {**settings, "splits": list(splits)}
    with folders.locked(output, "OUTPUT"):
        if overwrite:
            _clear(output)
        results = (FINISHED, f"draft/{Draft.SAVED}", *SPLITS)
        folders.claim(output, settings, inputs, sys.argv, results, "OUTPUT, use --overwrite")
        if (result := read_json(output / FINISHED)) is not None:
            return result
        given = read_dictionary(dictionary) if dictionary else None
        with Draft(output / "draft", splits) as draft:
            _encode_all(draft, files, blocks, encode, given and len(given), workers)
            result = _finish(output, draft, given, dictionary)
        write_json(output / FINISHED, result)
        shutil.rmtree(draft.folder)
    return result


def states_of(option: str, paths: Iterable[Path]) -> dict[str, str]:
    """Size and time of change of each file of an option, for ``inputs``: a change of the input is noticed."""
    states = {}
    for path in paths:
        state = path.stat()
        states[f"{option} {path.resolve()}"] = f"{state.st_size} bytes, changed at {state.st_mtime_ns}"
    return states


def _clear(output: Path) -> None:
    """Removes what an earlier run left; first what makes the folder look complete."""
    (output / FINISHED).unlink(missing_ok=True)
    (output / folders.MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(output / "draft", ignore_errors=True)
    for pattern in SPLITS:
        for path in output.glob(pattern):
            path.unlink()


class Draft:
    """What was encoded so far: files that grow, and a file that says how far they are valid.

    Attributes:
        files: how many files of the corpus are done.
        sentences, rejected, counts: by split, by reason, and the encoder's own.
        symbols: of encoders without a dictionary: how often each occurs, in the order of their draft ids.
    """

    SAVED = "saved.json"

    def __init__(self, folder: Path, splits: tuple[str, ...]):
        self.folder, self.splits = folder, splits
        folder.mkdir(exist_ok=True)
        saved = read_json(folder / self.SAVED) or {}
        self.files = saved.get("files", 0)
        self.sentences, self.rejected = Counter(saved.get("sentences")), Counter(saved.get("rejected"))
        self.counts, self.symbols = Counter(saved.get("counts")), Counter(saved.get("symbols"))
        self._ids = {symbol: i for i, symbol in enumerate(self.symbols)}
        names = [self._name(split, kind) for split in splits for kind in ("tokens", "sizes")]
        self._streams = {}
        for name in (*names, "rejected.tsv"):
            stream = self._streams[name] = (folder / name).open("ab", buffering=0)
            if stream.tell() < saved.get("bytes", {}).get(name, 0):
                raise UserError(f"{folder / name} is damaged: rerun the same command with --overwrite")
            stream.truncate(saved.get("bytes", {}).get(name, 0))

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *_) -> None:
        for stream in self._streams.values():
            stream.close()

    @staticmethod
    def _name(split: str, kind: str) -> str:
        return f"{split.replace('/', '.')}.{kind}"

    def add(self, source: str, block: EncodedBlock) -> None:
        """Adds a block of :func:`encode_packed`."""
        table = None
        if block.symbols is not None:
            table = [self._ids.setdefault(symbol, len(self._ids)) for symbol in block.symbols]
            table = np.array(table, np.uint32)
            self.symbols.update(dict.fromkeys(block.symbols, 0))  # in the order of their ids
        for split, (tokens, sizes) in block.splits.items():
            if table is not None:
                counts = np.bincount(tokens, minlength=len(table)).tolist()
                self.symbols.update(dict(zip(block.symbols, counts, strict=True)))
            self._write(self._name(split, "tokens"), tokens if table is None else table[tokens])
            self._write(self._name(split, "sizes"), sizes)
            self.sentences[split] += len(sizes)
        rows = io.StringIO()
        for rejection in block.rejections:
            self.rejected[rejection.reason.split(":")[0]] += 1  # after the colon it is about the one input
            cells = [cell.encode(errors="backslashreplace").decode() for cell in (source, *rejection)]
            csv.writer(rows, dialect="excel-tab", lineterminator="\n").writerow(cells)
        self._write("rejected.tsv", rows.getvalue().encode())
        self.counts.update(block.counts)

    def _write(self, name: str, content) -> None:
        left = memoryview(content).cast("B") if len(content) else b""
        try:
            while left:
                left = left[self._streams[name].write(left) :]
        except OSError as error:
            raise explained(error, self.folder / name) from error

    def save(self, files: int) -> None:
        """Records that so many files of the corpus are done."""
        self.files = files
        for name, stream in self._streams.items():
            try:
                os.fsync(stream.fileno())
            except OSError as error:
                raise explained(error, self.folder / name) from error
        names = ("files", "sentences", "rejected", "counts", "symbols")
        ends = {name: stream.tell() for name, stream in self._streams.items()}
        write_json(self.folder / self.SAVED, {**{n: getattr(self, n) for n in names}, "bytes": ends})

    def tokens(self, split: str) -> Iterator[np.ndarray]:
        """Draft ids [some], uint32, of all sentences of a split, in pieces."""
        with (self.folder / self._name(split, "tokens")).open("rb") as file:
            while len(piece := np.fromfile(file, np.uint32, CHUNK)):
                yield piece

    def sizes(self, split: str) -> np.ndarray:
        """Tokens of each sentence of a split, int32 [sentences]."""
        return np.fromfile(self.folder / self._name(split, "sizes"), np.int32)


def _encode_all(draft: Draft, files: Sequence[Path], blocks, encode, entries, workers: int) -> None:
    """Encodes the files that are not done."""
    sizes = [path.stat().st_size for path in files]
    done, saved = draft.files, time.monotonic()
    work = functools.partial(encode_packed, encode, entries)
    numbered = ((i, block) for i in range(done, len(files)) for block in blocks(files[i]))
    bar = tqdm(total=sum(sizes), initial=sum(sizes[:done]), unit="B", unit_scale=True, disable=None)
    with bar:
        for (i, block), encoded in in_order(work, numbered, workers, encode.__module__):
            if i > done and time.monotonic() - saved >= SAVE_SECONDS:
                draft.save(i)
                saved = time.monotonic()
            done = i
            draft.add(block.source, encoded)
            bar.update(block.weight)
            shown = {"sentences": draft.sentences.total(), "rejected": draft.rejected.total()}
            bar.set_postfix({name: f"{count:,}" for name, count in shown.items()}, refresh=False)
        draft.save(len(files))


def _finish(output: Path, draft: Draft, given, path: Path | None) -> dict:
    """Writes the results; returns what FINISHED holds."""
    with atomic(output / "rejected.tsv", "wb") as file:
        file.write(b"file\tline\treason\tinput\n")
        with (draft.folder / "rejected.tsv").open("rb") as rows:
            shutil.copyfileobj(rows, file)
    if empty := [split for split in draft.splits if not draft.sentences[split]]:
        raise UserError(_nothing_in(empty, draft, output))
    dictionary, text = given or _dictionary_of(draft.symbols), io.StringIO()
    table = None if given else np.array([dictionary.index(symbol) for symbol in draft.symbols], np.uint32)
    result = {}
    for split in draft.splits:
        sizes = draft.sizes(split)
        with indexed_dataset(output / split, len(dictionary)) as dataset:
            for ids in draft.tokens(split):
                dataset.add(ids if table is None else table[ids], [])
            dataset.add([], sizes)
        result[split] = {"sentences": len(sizes), "tokens": int(sizes.sum(dtype=np.int64))}
    dictionary.save(text)
    with atomic(output / "dict.txt", "wb") as file:
        file.write(path.read_bytes() if given else text.getvalue().encode())
    rejected = dict(draft.rejected.most_common())
    return {**result, "symbols": len(dictionary), "rejected": rejected, **draft.counts}


def _nothing_in(empty: list[str], draft: Draft, output: Path) -> str:
    if not draft.sentences.total() and not draft.rejected:
        return "the input is empty: there is nothing to prepare"
    why = "; ".join(f"{count:,} x {reason}" for reason, count in draft.rejected.most_common())
    single = " The input is a single document: an empty line ends one, see --layout."
    return (
        f"nothing is left for {' and '.join(empty)}. Rejected: {why or 'nothing'}"
        + (f" (see {output / 'rejected.tsv'})." if draft.rejected else ".")
        + single * (draft.counts["documents"] == 1)
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
