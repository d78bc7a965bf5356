"""Binarises a corpus of any size for fairseq: streaming, parallel, resumable and deterministic.

``binarise`` reads files as blocks, has worker processes encode each, and keeps the results of each file in
OUTPUT/draft, in the order of the input; if interrupted, rerunning it resumes at the first file that is not
done. The draft becomes

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
from itertools import groupby
from pathlib import Path

import numpy as np
from tqdm import tqdm

from lib.command_line import UserError
from lib.corpora.blocks import Block, EncodedBlock, Encoder
from lib.corpora.indexed import indexed_dataset
from lib.corpora.pool import in_order
from lib.dictionaries import read_dictionary
from lib.files import MANIFEST, atomic, claim, locked, read_json, write_json

FINISHED = "prepared.json"
SPLITS = ("train", "valid")
RESULTS = (
    FINISHED,
    *(f"{split}.{end}" for split in SPLITS for end in ("bin", "idx")),
    "dict.txt",
    "rejected.tsv",
)


def binarise(
    output: Path,
    settings: dict,
    inputs: dict[str, str],
    files: Sequence[Path],
    blocks: Callable[[Path], Iterable[Block]],
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
        blocks: reads a file as blocks, always the same ones in the same order.
        encode: makes sentences of a block; pickled once for each worker. Both splits must get a sentence.
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
        _encode(draft, files, blocks, encode, workers)
        result = _finish(output, draft, files, dictionary)
        write_json(output / FINISHED, result)
        shutil.rmtree(draft)
    return result


def states_of(option: str, paths: Iterable[Path]) -> dict[str, str]:
    """Size and time of change of each file of an option, for ``inputs``: a change of the input is noticed."""
    states = {}
    for path in paths:
        state = path.stat()
        states[f"{option} {path.resolve()}"] = f"{state.st_size} bytes, changed at {state.st_mtime_ns}"
    return states


def _encode(draft: Path, files: Sequence[Path], blocks, encode: Encoder, workers: int) -> None:
    """Writes DRAFT/N, the encoded blocks of file N, of each file that is not done."""
    numbers = {path: number for number, path in enumerate(files)}
    sizes = {path: path.stat().st_size for path in files}
    todo = [path for path in files if not (draft / str(numbers[path])).exists()]
    done = sum(sizes.values()) - sum(sizes[path] for path in todo)
    encoded = in_order(encode, (block for path in todo for block in blocks(path)), workers)
    with tqdm(total=sum(sizes.values()), initial=done, unit="B", unit_scale=True, disable=None) as bar:
        for path, found in groupby(encoded, key=lambda pair: pair[0].path):
            with atomic(draft / str(numbers[path]), "wb") as file:
                for block, result in found:
                    pickle.dump(result, file)
                    bar.update(block.weight)


def _encoded(draft: Path, files: Sequence[Path]) -> Iterator[tuple[Path, EncodedBlock]]:
    """All encoded blocks in the order of the input, each with its file."""
    for number, path in enumerate(files):
        if (draft / str(number)).exists():  # of an empty file there are none
            with (draft / str(number)).open("rb") as file:
                while file.peek(1):
                    yield path, pickle.load(file)


def _finish(output: Path, draft: Path, files: Sequence[Path], path: Path | None) -> dict:
    """Writes the results; returns what FINISHED holds."""
    totals = {split: {"sentences": 0, "tokens": 0} for split in SPLITS}
    rejected, counts, symbols = Counter(), Counter(), Counter()
    with atomic(output / "rejected.tsv") as file:
        rows = csv.writer(file, dialect="excel-tab", lineterminator="\n")
        rows.writerow(("file", "line", "reason", "input"))
        for source, block in _encoded(draft, files):
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
        datasets = {s: stack.enter_context(indexed_dataset(output / s, len(dictionary))) for s in SPLITS}
        for _, block in _encoded(draft, files):
            for split, (tokens, sizes) in block.splits.items():
                if block.symbols is not None:
                    tokens = np.array([dictionary.index(symbol) for symbol in block.symbols])[tokens]
                datasets[split].add(tokens, sizes)
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
