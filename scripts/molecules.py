"""Predicts properties of molecules with a fine-tuned checkpoint, or embeds molecules with any.

    python scripts/molecules.py predict runs/bbbp/seed-1/checkpoint_best.pt molecules.csv
    python scripts/molecules.py embed checkpoints/exlm-smiles/checkpoint_best.pt molecules.csv --pooling mean

predict writes molecules.predictions.csv: a row for each molecule with its SMILES, each property (the
probability of class 1, or the value in the units of the training data) and a remark: why a molecule could not
be read (its cells are empty then), or what to be wary of, such as tokens that the model does not know.

embed writes molecules.npy, float32 [molecules, hidden size], with rows of NaN for molecules that could not be
read, and the remarks (row from 1, SMILES, remark) in molecules.npy.remarks.tsv.

Rows are in the order of the input, of which any number fits in bounded memory.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from pathlib import Path

import numpy as np
from lib.command_line import UserError, argument_parser, positive, script
from lib.corpora.molecules import DEFAULT_COLUMN, TEXT_FORMATS, format_of, records_in
from lib.files import atomic


def smiles_of(path: Path, column: str) -> Iterator[str]:
    """The SMILES of each row or line, "" if there is none, and all of a row with a wrong number of cells.

    Raises:
        UserError: if the file cannot be read, or has no such column.
    """
    format_of(path, TEXT_FORMATS)
    for record in records_in(path, column):
        text = record.content.decode("utf-8", errors="backslashreplace")
        yield "" if record.fault and "," not in text else text  # a single cell could pass for a SMILES


def output_of(args: argparse.Namespace) -> Path:
    """``args.output``, or a file named after the molecules; its folder is made.

    Raises:
        UserError: if it is the input.
    """
    stem = args.molecules.name.removesuffix(".gz").rsplit(".", 1)[0]
    ending = ".npy" if args.what == "embed" else ".predictions.csv"
    output = args.output or args.molecules.with_name(stem + ending)
    if output.resolve() == args.molecules.resolve():
        raise UserError(f"--output {output} is the file of the molecules: choose another")
    output.parent.mkdir(parents=True, exist_ok=True)
    return output


def predict(output: Path, rows: Iterable[tuple], names: Sequence[str]) -> Counter:
    """Writes (SMILES, (values, remark)), values being None if it could not be read; counts whether it was."""
    counts = Counter()
    with atomic(output) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["smiles", *names, "remark"])
        for text, (values, remark) in rows:
            counts[values is not None] += 1
            cells = [""] * len(names) if values is None else [f"{value:.6g}" for value in values]
            writer.writerow([text, *cells, remark])
    return counts


def embed(output: Path, rows: Iterable[tuple], shape: tuple[int, int]) -> Counter:
    """As :func:`predict`, of vectors."""
    counts, header = Counter(), {"descr": "<f4", "fortran_order": False, "shape": shape}
    with atomic(output, "wb") as file, atomic(output.with_name(f"{output.name}.remarks.tsv")) as remarks:
        np.lib.format.write_array_header_1_0(file, header)
        remarks.write("row\tsmiles\tremark\n")
        for row, (text, (vector, remark)) in enumerate(rows, start=1):
            counts[vector is not None] += 1
            vector = np.full(shape[1], np.nan) if vector is None else vector
            file.write(np.asarray(vector, "<f4").tobytes())
            if remark:
                remarks.write(f"{row}\t{' '.join(text.split())}\t{' '.join(remark.split())}\n")
    return counts


def summary(counts: Counter, output: Path) -> str:
    """Raises UserError if no molecule could be read at all."""
    if counts[False] and not counts[True]:
        raise UserError(f"none of {counts[False]:,} molecules could be read: see the remarks in {output}")
    text = f"{output}: {counts.total():,} molecules"
    if counts[False]:
        text += f", {counts[False]:,} of them could not be read (empty rows, with the reason)"
    return text


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("what", choices=("predict", "embed"))
    add("checkpoint", type=Path, help="of exlm_*, mlm_*, p_roberta* or p_roberta_ext_denselink*")
    add("molecules", type=Path, help=".csv with a header, or one SMILES per line: .txt, .smi; also as .gz")
    add("--output", type=Path, metavar="FILE", help="(default: named after the molecules, beside them)")
    add("--smiles-column", default=DEFAULT_COLUMN, metavar="NAME", help="of a .csv file (default: smiles)")
    add("--data", type=Path, metavar="DIR", help="folder of dict.txt (default: as the checkpoint says)")
    add("--truncate", action="store_true", help="truncate molecules longer than the checkpoint's positions")
    add("--smiles", choices=("canonical", "as-given"), help="(default: as in fine-tuning, or canonical)")
    valence = "atoms with too many bonds (default: as in fine-tuning, or check)"
    add("--valence", choices=("check", "allow"), help=valence)
    add("--batch-tokens", type=positive, default=16384, metavar="N", help="(default: %(default)s)")
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    pooling = (
        "embed: the state of <s> (ExLM: its first), or the mean over the molecule's tokens (default: first)"
    )
    add("--pooling", choices=("first", "mean"), default="first", help=pooling)
    args = parser.parse_args(argv)
    output = output_of(args)

    def smiles() -> Iterator[str]:
        return smiles_of(args.molecules, args.smiles_column)

    next(smiles(), None)  # an unreadable file is refused before the model is loaded
    from fs_plugins.checkpoint import load_checkpoint
    from fs_plugins.inference.molecules import MoleculeModel

    model = MoleculeModel(
        load_checkpoint(args.checkpoint, args.data, args.device),
        batch_tokens=args.batch_tokens,
        truncate=args.truncate,
        canonical=None if args.smiles is None else args.smiles == "canonical",
        allow_valence=None if args.valence is None else args.valence == "allow",
    )
    texts, ahead = tee(smiles())
    if args.what == "predict":
        model.head  # noqa: B018  (raises if it predicts nothing)
        rows = zip(texts, model.predict(ahead), strict=True)
        counts = predict(output, rows, model.properties.names)
    else:
        rows = zip(texts, model.embed(ahead, pooling=args.pooling), strict=True)
        counts = embed(output, rows, (sum(1 for _ in smiles()), model.width))
    print(summary(counts, output))


if __name__ == "__main__":
    sys.exit(main())
