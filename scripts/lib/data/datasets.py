"""What preparations share: datasets in fairseq's format, and options."""

import argparse
import os
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from fairseq.data import indexed_dataset as form
from lib.command_line import UserError, counted, positive, share

from fs_plugins.files import atomic

FEW_TOKENS = 1000  # too few tokens to validate on


def write_dataset(prefix: Path, sentences: Iterable[Sequence[int]], entries: int) -> tuple[int, int]:
    """Writes sentences of ids as fairseq's indexed dataset: PREFIX.bin and .idx, such as FOLDER/train.bin
    (the folder is made); returns how many they are, and their tokens. The ``entries`` of the dictionary
    determine the integers' width."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    dtype, lengths = form.best_fitting_int_dtype(entries), array("i")
    with atomic(f"{prefix}.bin", "wb") as file:
        for sentence in sentences:
            file.write(np.asarray(sentence, dtype).tobytes())
            lengths.append(len(sentence))
    sizes = np.array(lengths, np.int32)
    starts = np.append(np.int64(0), sizes.cumsum(dtype=np.int64))[:-1] * dtype().itemsize
    with atomic(f"{prefix}.idx", "wb") as file:
        file.write(form.MMapIndexedDataset.Index._HDR_MAGIC)
        file.write(struct.pack("<QBQ", 1, form._dtype_header_code(dtype), len(sizes)))
        file.write(sizes.tobytes() + starts.tobytes())
    return len(sizes), int(sizes.sum(dtype=np.int64))


def inputs_of(files: dict[str, Iterable[Path]]) -> dict[str, str]:
    """Returns each option's files with size and time of change, for the manifest. Raises UserError if a file
    is given twice, whatever the path."""
    paths = [(option, path.resolve()) for option, given in files.items() for path in given]
    [(path, times)] = Counter(path for _, path in paths).most_common(1)
    if times > 1:
        raise UserError(f"{path} is given more than once")
    states = ((option, path, path.stat()) for option, path in paths)
    return {
        f"{option} {path}": f"{state.st_size} bytes, changed at {state.st_mtime_ns}"
        for option, path, state in states
    }


def add_corpus_arguments(parser: argparse.ArgumentParser, what: str, valid_share: float) -> None:
    """Adds --train, --valid, --valid-share and --workers; ``what`` is trained on."""
    # cores that this process may use, if the system tells (Linux)
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
    """Prints what ``binarise`` came to, each of whose sentences is a ``what``."""
    for split in ("train", "valid"):
        sentences, tokens = result[split]["sentences"], result[split]["tokens"]
        print(f"{split}: {counted(sentences, what)}, {counted(tokens, 'token')}")
    if tokens < FEW_TOKENS:
        few = "few tokens to choose checkpoint_best.pt by, or to measure on: give more for validation"
        print(f"warning: {few}, by --valid or --valid-share")
    if repeated := result["valid_in_train"]:
        print(f"warning: in --train and in --valid: {repeated:,}; validation is too good, leave them out")
    total = sum(result["rejected"].values())
    reasons = ", ".join(f"{count:,} x {reason}" for reason, count in result["rejected"].items())
    if total > sum(result[split]["sentences"] for split in ("train", "valid")):
        print(f"warning: most of the input was rejected: are {what}s where they are looked for?")
    print(f"rejected: {total:,}" + (f" ({reasons}; see {output / 'rejected.tsv'})" if total else ""))
