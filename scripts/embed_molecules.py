"""Embeds molecules with a pre-trained or fine-tuned checkpoint: one vector each, as .npy or .parquet.

    python scripts/embed_molecules.py checkpoints/exlm-smiles/checkpoint_best.pt molecules.csv --output m.npy

A .npy file is float32 [molecules, hidden size], with rows of NaN for molecules that could not be read; a
.parquet file (needs pyarrow) has the columns smiles, embedding (null for those) and remark. The order is that
of the input. For .npy, remarks go into OUTPUT.remarks.tsv (row from 1, SMILES, remark), and the input is read
twice. Any number of molecules in bounded memory.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from lib.command_line import UserError, run_main
from lib.files import atomic
from lib.moleculenet import streaming

ROWS = 4096  # of a row group


def parser() -> argparse.ArgumentParser:
    result = streaming.parser(__doc__)
    result.add_argument(
        "--pooling",
        choices=("first", "mean"),
        default="first",
        help="the state of <s> (ExLM: its first), or the mean over the molecule's tokens (default: first)",
    )
    return result


def write_npy(output: Path, vectors: streaming.Counted, rows: int, width: int) -> None:
    partial = output.with_name(f"{output.name}.partial")
    try:
        array = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float32, shape=(rows, width))
        with atomic(output.with_name(f"{output.name}.remarks.tsv")) as file:
            file.write("row\tsmiles\tremark\n")
            for number, (smiles, vector, remark) in enumerate(vectors, 1):
                if number <= rows:
                    array[number - 1] = np.nan if vector is None else vector
                if remark:
                    file.write(f"{number}\t{' '.join(smiles.split())}\t{' '.join(remark.split())}\n")
        if vectors.rows != rows:
            raise UserError(f"the molecules changed while they were read: {rows} rows, then {vectors.rows}")
        array.flush()
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)


def write_parquet(output: Path, vectors: streaming.Counted, width: int) -> None:
    import pyarrow
    import pyarrow.parquet

    kind = pyarrow.list_(pyarrow.float32(), width)
    schema = pyarrow.schema([("smiles", pyarrow.string()), ("embedding", kind), ("remark", pyarrow.string())])
    group: list[tuple] = []
    with atomic(output, "wb") as file, pyarrow.parquet.ParquetWriter(file, schema) as writer:

        def flush() -> None:
            smiles, embeddings, notes = zip(*group, strict=True)
            columns = [
                pyarrow.array(smiles, pyarrow.string()),
                pyarrow.array([None if e is None else e.tolist() for e in embeddings], kind),
                pyarrow.array(notes, pyarrow.string()),
            ]
            writer.write_table(pyarrow.table(columns, schema=schema))
            group.clear()

        for row in vectors:
            group.append(row)
            if len(group) == ROWS:
                flush()
        if group:
            flush()


def run(args: argparse.Namespace) -> None:
    output = streaming.output_of(args, ".npy")
    npy = output.suffix == ".npy"
    if not npy and output.suffix != ".parquet":
        raise UserError(f"--output {output} must end in .npy or .parquet")
    if not npy:
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise UserError(
                f"--output {output} needs pyarrow: pip install pyarrow, or choose .npy"
            ) from error
    rows = sum(1 for _ in streaming.smiles_of(args.molecules, args.smiles_column)) if npy else 0
    model = streaming.load_model(args)
    vectors = streaming.Counted(streaming.results_of(args, lambda smiles: model.embed(smiles, args.pooling)))
    if npy:
        write_npy(output, vectors, rows, model.width)
    else:
        write_parquet(output, vectors, model.width)
    print(vectors.summary(output))


def main(arguments: list[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    return run_main(lambda: run(args), "\ninterrupted: nothing was written")


if __name__ == "__main__":
    sys.exit(main())
