"""Binarises a corpus of any size for fairseq: streaming, parallel, resumable and deterministic.

``binarise`` takes blocks of input from an iterator, has worker processes encode each (``blocks.Encoder``),
and keeps each result as a part in OUTPUT/parts. Once all parts exist they are merged into

    OUTPUT/dict.txt         fairseq's dictionary
    OUTPUT/SPLIT.bin, .idx  the sentences of each split, in the order of the input
    OUTPUT/rejected.tsv     what was left out: file, line, reason, input
    OUTPUT/prepared.json    what it all came to; written last, so it marks a complete folder

and removed. However a run ends, rerunning it resumes: existing parts are kept. All files but made_of.json
are the same, byte for byte, for any number of workers and interruptions.

    def encode(block: Block) -> EncodedBlock:
        train = [np.array([*ids(record.content), EOS]) for record in block.payload]
        return EncodedBlock({"train": train})

    binarise(output, settings, inputs, lambda: line_blocks("a.txt"), encode, dictionary=Path("dict.txt"))

Encoders with a given dictionary return its ids; without one they return ids of symbols of their own
(``EncodedBlock.symbols``), and dict.txt is built from those that occur. Sentences end in the end-of-sentence
symbol, as from fairseq-preprocess, which the encoder adds.
"""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from lib import folders
from lib.command_line import UserError
from lib.corpora.blocks import Block, Encoder
from lib.corpora.indexed import indexed_dataset
from lib.corpora.parts import Part, read_part
from lib.corpora.pool import Job, run_jobs
from lib.dictionaries import read_dictionary
from lib.files import atomic, read_json, write_json

FORMAT = 2  # of the parts and of the cut into blocks
FINISHED = "prepared.json"
SPLITS = ("*.bin", "*.idx", "shard*/*.bin", "shard*/*.idx", "shard*/dict.txt", "dict.txt", "rejected.tsv")


def binarise(
    output: Path,
    settings: dict,
    inputs: dict[str, str],
    blocks: Callable[[], Iterable[Block]],
    encode: Encoder,
    *,
    splits: tuple[str, ...] = ("train", "valid"),
    dictionary: Path | None = None,
    workers: int = 1,
    total_weight: int | None = None,
    overwrite: bool = False,
) -> dict:
    """Binarises a corpus; see above.

    Args:
        output: the folder; made if it does not exist.
        settings: all that a user chose and the result depends on, in JSON's types.
        inputs: what was read, by name: see ``states_of`` and the contract in lib/folders.py. A folder
            begun with other settings or inputs is refused.
        blocks: returns the corpus as blocks, always the same ones in the same order.
        encode: makes sentences of a block; pickled once for each worker.
        splits: those to write; each must get a sentence at least.
        dictionary: a dict.txt whose ids the encoder returns; it is copied.
        workers: processes; 1 works in this one.
        total_weight: sum of the blocks' weights, for the progress bar.
        overwrite: begin anew, whatever the folder holds.

    Returns:
        What prepared.json holds: for each split its sentences and tokens, "rejected" by reason, "symbols"
        (entries of the dictionary with fairseq's four) and what the encoder counted.

    Raises:
        UserError: for what the user has to mend.
    """
    settings, parts = {"format": FORMAT, **settings, "splits": list(splits)}, output / "parts"
    with folders.locked(output, "OUTPUT"):
        if overwrite:
            _clear(output)
        results = (FINISHED, "parts/*.npz", *SPLITS)
        folders.claim(output, settings, inputs, sys.argv, results, "OUTPUT, use --overwrite")
        if (result := read_json(output / FINISHED)) is not None:
            return result
        parts.mkdir(exist_ok=True)
        paths = _encode_all(parts, blocks, encode, workers, total_weight)
        if not paths:
            raise UserError("the input is empty: there is nothing to prepare")
        result = _merge_all(output, paths, splits, dictionary)
        write_json(output / FINISHED, result)
        shutil.rmtree(parts)
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
    (output / folders.RECORD).unlink(missing_ok=True)
    shutil.rmtree(output / "parts", ignore_errors=True)
    for pattern in SPLITS:
        for path in output.glob(pattern):
            path.unlink()


def _encode_all(folder: Path, blocks, encode: Encoder, workers: int, total_weight) -> list[Path]:
    """Makes the parts that are missing; returns all of them in the order of the blocks."""
    for leftover in folder.glob("*.tmp"):  # of a run that was killed
        leftover.unlink()
    paths: list[Path] = []
    shown = Counter()
    with tqdm(total=total_weight, unit="B", unit_scale=True, disable=None, file=sys.stderr) as bar:

        def missing() -> Iterator[Job]:
            for number, block in enumerate(blocks()):
                paths.append(folder / f"{number:08d}.npz")
                if paths[-1].exists():
                    bar.update(block.weight)
                else:
                    yield block, paths[-1]

        for weight, figures in run_jobs(missing(), encode, workers):
            bar.update(weight)
            shown.update(figures)
            bar.set_postfix({name: f"{count:,}" for name, count in shown.items()}, refresh=False)
    return paths


def _merge_all(output: Path, paths: list[Path], splits: tuple[str, ...], given: Path | None) -> dict:
    rejected, counts, sentences, symbols = Counter(), Counter(), Counter(), Counter()
    with atomic(output / "rejected.tsv") as file:
        rows = csv.writer(file, dialect="excel-tab", lineterminator="\n")
        rows.writerow(["file", "line", "reason", "input"])
        for part in map(read_part, paths):
            counts.update(part.counts)
            sentences.update(part.sentences)
            symbols.update(dict(zip(part.symbols or (), part.symbol_counts.tolist(), strict=True)))
            for rejection in part.rejections:
                rejected[rejection.reason.split(":")[0]] += 1  # after the colon it is about the one input
                cells = (part.source, *rejection)
                rows.writerow([cell.encode(errors="backslashreplace").decode() for cell in cells])
    if empty := [split for split in splits if not sentences[split]]:
        why = "; ".join(f"{count:,} x {reason}" for reason, count in rejected.most_common())
        single = " The input is a single document: an empty line ends one, see --layout."
        raise UserError(
            f"nothing is left for {' and '.join(empty)}. Rejected: {why or 'nothing'}"
            + (f" (see {output / 'rejected.tsv'})." if rejected else ".")
            + single * (counts["documents"] == 1)
            + " Give more input, or with --overwrite another --valid or --valid-share"
        )
    dictionary = read_dictionary(given) if given else _dictionary_of(symbols)
    result = {}
    for split in splits:
        total = 0
        with indexed_dataset(output / split, len(dictionary)) as dataset:
            for part in map(read_part, paths):
                tokens, sizes = part.split(split)
                dataset.add(_global_ids(part, tokens, dictionary), sizes)
                total += len(tokens)
        result[split] = {"sentences": sentences[split], "tokens": total}
    text = io.StringIO()
    dictionary.save(text)
    with atomic(output / "dict.txt", "wb") as file:
        file.write(given.read_bytes() if given else text.getvalue().encode())
    return {**result, "symbols": len(dictionary), "rejected": dict(rejected.most_common()), **counts}


def _dictionary_of(symbols: Counter):
    """fairseq's Dictionary of counted symbols: the most frequent first, then in order of characters."""
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    for symbol, count in sorted(symbols.items(), key=lambda item: (-item[1], item[0])):
        if symbol not in dictionary and count:  # </s> and its like are there from the start
            dictionary.add_symbol(symbol, n=count)
    return dictionary


def _global_ids(part: Part, tokens: np.ndarray, dictionary) -> np.ndarray:
    """A part's tokens as ids of the dictionary.

    Raises:
        ValueError: if an encoder returned ids that its dictionary does not have.
    """
    if part.symbols is not None:
        return np.array([dictionary.index(symbol) for symbol in part.symbols], np.int64)[tokens]
    if tokens.size and tokens.max() >= len(dictionary):
        raise ValueError(
            f"{part.source}: id {tokens.max()} is beyond the dictionary's {len(dictionary)} symbols"
        )
    return tokens
