"""One vector for each molecule, from a pre-trained or fine-tuned checkpoint, as .npy or .parquet.

    python scripts/embed_molecules.py checkpoints/exlm-smiles/checkpoint_best.pt molecules.csv --output m.npy

A .npy file is float32 [molecules, hidden size], with rows of NaN for molecules that could not be read; a
.parquet file (needs pyarrow) has the columns smiles, embedding (null there) and remark. The order is that of
the input. Remarks also go into OUTPUT.remarks.tsv (row from 1, SMILES, remark), for .npy. Any number of
molecules in bounded memory; the input is read twice for .npy.
"""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path

import numpy as np
from recipes.moleculenet import streaming
from recipes.moleculenet.reading import InputError

ROWS = 4096  # of a row group


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    streaming.add_arguments(parser)
    parser.add_argument(
        "--pooling",
        choices=("first", "mean"),
        default="first",
        help="the state of <s> (of ExLM its first), or the mean over the molecule's tokens (default: first)",
    )
    return parser.parse_args(argv)


def write_npy(partial: Path, remarks: Path, vectors, rows: int, width: int) -> tuple[int, int]:
    """Returns how many molecules are bad, and how many others have a remark."""
    array = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float32, shape=(rows, width))
    bad = remarked = written = 0
    with remarks.open("w", encoding="utf-8") as file:
        file.write("row\tsmiles\tremark\n")
        for smiles, vector, remark in vectors:
            array[written] = np.nan if vector is None else vector
            written += 1
            if remark:
                file.write(f"{written}\t{' '.join(smiles.split())}\t{' '.join(remark.split())}\n")
            bad += vector is None
            remarked += vector is not None and bool(remark)
    if written != rows:
        raise InputError(f"the file of the molecules changed while it was read: {rows} rows, then {written}")
    array.flush()
    return bad, remarked


def write_parquet(partial: Path, vectors, width: int) -> tuple[int, int, int]:
    """Returns the rows, how many molecules are bad, and how many others have a remark."""
    import pyarrow
    import pyarrow.parquet

    kind = pyarrow.list_(pyarrow.float32(), width)
    schema = pyarrow.schema([("smiles", pyarrow.string()), ("embedding", kind), ("remark", pyarrow.string())])
    rows = bad = remarked = 0
    group: list[tuple] = []
    with pyarrow.parquet.ParquetWriter(partial, schema) as writer:

        def flush() -> None:
            smiles, embeddings, notes = zip(*group, strict=True)
            columns = [
                pyarrow.array(smiles, pyarrow.string()),
                pyarrow.array([None if e is None else e.tolist() for e in embeddings], kind),
                pyarrow.array(notes, pyarrow.string()),
            ]
            writer.write_table(pyarrow.table(columns, schema=schema))
            group.clear()

        for smiles, vector, remark in vectors:
            group.append((smiles, vector, remark))
            rows, bad = rows + 1, bad + (vector is None)
            remarked += vector is not None and bool(remark)
            if len(group) == ROWS:
                flush()
        if group:
            flush()
    return rows, bad, remarked


def run(args: argparse.Namespace) -> str:
    output = streaming.default_output(args, ".npy")
    if output.suffix not in (".npy", ".parquet"):
        raise InputError(f"--output {output} has to end in .npy or .parquet")
    if output.suffix == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise InputError(
                f"--output {output} needs pyarrow (pip install pyarrow); .npy does without"
            ) from error
    rows = streaming.count_rows(args.molecules, args.smiles_column) if output.suffix == ".npy" else 0
    logging.basicConfig(level=logging.WARNING, force=True)
    model = streaming.load_model(args)
    vectors = streaming.beside(
        streaming.smiles_of(args.molecules, args.smiles_column),
        lambda smiles: model.embed(smiles, args.pooling),
    )
    partial = output.with_name(output.name + ".partial")
    remarks = output.with_name(output.name + ".remarks.tsv")
    partial_remarks = remarks.with_name(remarks.name + ".partial")
    try:
        if output.suffix == ".npy":
            bad, remarked = write_npy(partial, partial_remarks, vectors, rows, model.width)
            os.replace(partial_remarks, remarks)
        else:
            rows, bad, remarked = write_parquet(partial, vectors, model.width)
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)
        partial_remarks.unlink(missing_ok=True)
    return streaming.summary(rows, bad, remarked, output)


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    try:
        print(run(args))
    except streaming.CAUGHT as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
