"""Binarisation of a corpus of any size for fairseq: streaming, parallel, resumable and deterministic.

``binarise`` takes blocks of input from an iterator, has worker processes encode each (``blocks.Encoder``),
and keeps each result as a part in OUTPUT/parts. When all parts are there they are merged into

    OUTPUT/dict.txt         fairseq's dictionary
    OUTPUT/SPLIT.bin, .idx  the sentences of each split ("mmap"), in the order of the input
    OUTPUT/rejected.tsv     what was left out: file, line, reason, input
    OUTPUT/prepared.json    the settings and what came of it; written last, so it marks the folder as whole

and the parts are removed. A run that was ended in whatever way goes on when it is repeated: parts that are
there are not made again. All but prepared.json is the same, byte for byte, for any number of workers and
interruptions.

An encoder and its input look like this:

    def encode(block: Block) -> EncodedBlock:
        train = [np.array([*ids(record.content), EOS]) for record in block.payload]
        return EncodedBlock({"train": train})

    binarise(output, settings, lambda: line_blocks("a.txt"), encode, workers=4, dictionary=Path("dict.txt"))

Encoders with a given dictionary give its ids; without one they give ids of symbols of their own
(``EncodedBlock.symbols``), and dict.txt is made of the symbols that occur. Sentences end in the
end-of-sentence symbol, as from fairseq-preprocess; that is the encoder's to add.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from recipes.corpora import merge
from recipes.corpora.blocks import Block, Encoder, PreparationError, explained, locked, write_atomically
from recipes.corpora.parts import has_fingerprint, part_fingerprint
from recipes.corpora.pool import Job, run_jobs

FORMAT = 1  # of the parts; another one begins anew
FINISHED = "prepared.json"


def binarise(
    output: Path,
    settings: dict,
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
        output: the folder; made if it is not there.
        settings: all that the result depends on and that a user chose, in JSON's types; with the input files'
            sizes and times (``input_state``; of a dictionary too). A folder begun with others is refused.
        blocks: gives the corpus as blocks, always the same ones in the same order.
        encode: makes sentences of a block; pickled once for each worker.
        splits: those that are written; each must get a sentence at least.
        dictionary: a dict.txt whose ids the encoder gives; it is copied.
        workers: processes; 1 works in this one.
        total_weight: sum of the blocks' weights, for the progress bar.
        overwrite: begin anew where the folder holds something else.

    Returns:
        What prepared.json holds under "result": for each split its sentences and tokens, "rejected" by
        reason, "symbols" (entries of the dictionary with fairseq's four) and what the encoder counted.

    Raises:
        PreparationError: for what the user has to mend.
    """
    settings = json.loads(json.dumps({"format": FORMAT, **settings, "splits": list(splits)}))
    with _opened(output, settings, overwrite) as parts_folder:
        if (output / FINISHED).exists():
            return json.loads((output / FINISHED).read_text())["result"]
        paths = _encode_all(parts_folder, settings, blocks, encode, workers, total_weight)
        if not paths:
            raise PreparationError("the input is empty: there is nothing to prepare")
        result = _merge_all(output, paths, splits, dictionary)
        whole = json.dumps({"settings": settings, "result": result}, indent=1) + "\n"
        write_atomically(output / FINISHED, lambda file: file.write(whole.encode()))
        shutil.rmtree(parts_folder)
    return result


def input_state(paths: Iterable[Path]) -> dict[str, list[int]]:
    """Size and time of change of each input file, for ``settings``: input that has changed is noticed."""
    return {str(p.resolve()): [p.stat().st_size, p.stat().st_mtime_ns] for p in paths}


def is_finished(output: Path) -> bool:
    return (output / FINISHED).exists()


@contextmanager
def _opened(output: Path, settings: dict, overwrite: bool) -> Iterator[Path]:
    """The folder of the parts, locked, with these settings and no others."""
    parts_folder = output / "parts"
    try:
        with locked(output):
            if overwrite:
                _clear(output)
            _check_settings(output, settings)
            if not is_finished(output):
                parts_folder.mkdir(exist_ok=True)
                text = json.dumps(settings, indent=1)
                write_atomically(parts_folder / "settings.json", lambda file: file.write(text.encode()))
            yield parts_folder
    except OSError as error:
        raise explained(error, Path(error.filename or output / FINISHED)) from error


def _clear(output: Path) -> None:
    """Removes what an earlier run left; first what makes the folder look whole."""
    for name in (FINISHED, "dict.txt"):
        (output / name).unlink(missing_ok=True)
    shutil.rmtree(output / "parts", ignore_errors=True)
    for pattern in ("*.bin", "*.idx", "shard*/*.bin", "shard*/*.idx", "shard*/dict.txt", "rejected.tsv"):
        for path in output.glob(pattern):
            path.unlink()


def _check_settings(output: Path, settings: dict) -> None:
    for path, inner in ((output / FINISHED, "settings"), (output / "parts" / "settings.json", None)):
        if path.exists():
            try:
                there = json.loads(path.read_text())
                there = there[inner] if inner else there
            except (ValueError, KeyError, TypeError) as error:
                raise PreparationError(f"{path} is damaged ({error}): begin anew with --overwrite") from None
            if there != settings:
                raise PreparationError(
                    f"{output} was {'made' if inner else 'begun'} with other settings:\n"
                    f"{_differences(there, settings)}\nChoose another folder, or begin anew with --overwrite"
                )
            return
    if (output / "dict.txt").exists() or any(output.glob("*.idx")):
        raise PreparationError(
            f"{output} holds binarised data that this program did not make: choose another folder, or "
            "replace them with --overwrite"
        )


def _differences(there: dict, asked: dict) -> str:
    lines = []
    for name in sorted(there.keys() | asked.keys()):
        if there.get(name) != asked.get(name):
            lines.append(f"  {name}: there {there.get(name)!r}, asked {asked.get(name)!r}")
    return "\n".join(lines)


def _encode_all(folder: Path, settings: dict, blocks, encode, workers, total_weight) -> list[Path]:
    """Makes the parts that are missing; returns all of them in the order of the blocks."""
    for leftover in folder.glob("*.tmp"):  # of a run that was killed
        leftover.unlink()
    paths: list[Path] = []
    text = json.dumps(settings, sort_keys=True)
    shown = Counter()
    with tqdm(total=total_weight, unit="B", unit_scale=True, disable=None, file=sys.stderr) as bar:

        def missing() -> Iterator[Job]:
            for number, block in enumerate(blocks()):
                path = folder / f"{number:08d}.npz"
                paths.append(path)
                fingerprint = part_fingerprint(text, block)
                if has_fingerprint(path, fingerprint):
                    bar.update(block.weight)
                else:
                    yield block, path, fingerprint

        for weight, figures in run_jobs(missing(), encode, workers):
            bar.update(weight)
            shown.update(figures)
            bar.set_postfix({name: f"{count:,}" for name, count in shown.items()}, refresh=False)
    return paths


def _merge_all(output: Path, paths: list[Path], splits: tuple[str, ...], given: Path | None) -> dict:
    from fairseq.data import Dictionary

    parts = merge.reader_of(paths)
    rejected = merge.write_rejections(output / "rejected.tsv", parts)
    counts = Counter()
    for part in parts():
        counts.update(part.counts)
    dictionary = Dictionary.load(str(given)) if given else merge.build_dictionary(parts)
    result = {}
    for split in splits:
        sentences, tokens = merge.write_split(output / split, split, parts, dictionary)
        result[split] = {"sentences": sentences, "tokens": tokens}
    if empty := [split for split in splits if result[split]["sentences"] == 0]:
        why = "; ".join(f"{count:,} x {reason}" for reason, count in rejected.most_common())
        raise PreparationError(
            f"nothing is left for {' and '.join(empty)}. Rejected: {why or 'nothing'}"
            + (f" (see {output / 'rejected.tsv'})" if rejected else "")
            + ": give more, or with --overwrite another --valid or --valid-share"
        )
    if given:
        write_atomically(output / "dict.txt", lambda file: file.write(given.read_bytes()))
    else:
        merge.write_dictionary(dictionary, output / "dict.txt")
    return {
        **result,
        "symbols": len(dictionary),
        "rejected": dict(rejected.most_common()),
        **counts,
    }
