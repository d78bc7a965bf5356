"""Predicts properties of molecules with a fine-tuned checkpoint, or embeds molecules with any.

    python scripts/molecules.py predict runs/bbbp/seed-1/checkpoint_best.pt molecules.csv
    python scripts/molecules.py embed checkpoints/exlm-smiles/checkpoint_best.pt molecules.csv

predict writes molecules.predictions.csv (or --output): the columns of the table (of .smi the SMILES and the
name), each property (the probability of class 1, or the value in the units of the training data) and a
remark: why a molecule could not be read (its values are empty then), or what to be wary of, such as tokens
that the model does not know.

embed writes molecules.npy, float32 [molecules, hidden size], with rows of NaN for molecules that could not be
read, and the remarks (row from 1, line of the input, SMILES, remark) in molecules.npy.remarks.tsv.

Rows are in the order of the input, without its blank lines. Ctrl-C, or a line that cannot be read, ends it
with the rows so far.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd
from lib.command_line import UserError, argument_parser, counted, positive, script
from lib.data.frames import TableFormat, add_table_arguments, column_of, frames_of
from lib.files import DIGITS, plain_cell

from fs_plugins.files import atomic, check_absent

PART = 256  # molecules that are written at a time
ENDINGS = {"predict": ".predictions.csv", "embed": ".npy"}


def output_of(args: argparse.Namespace) -> Path:
    """Returns ``args.output``, or a file named after the molecules. Raises FileExistsError if it exists and
    is not to be overwritten, UserError if its name says another format."""
    ending = ENDINGS[args.what]
    output = args.output or args.molecules.with_name(args.molecules.name.partition(".")[0] + ending)
    if not output.name.endswith(written := ending[-4:]):
        raise UserError(f"--output {output}: {args.what} writes {written}, name the file so")
    check_absent(output, args.overwrite)
    output.parent.mkdir(parents=True, exist_ok=True)
    return output


def parts_of(path: Path, form: TableFormat) -> Iterator[tuple[pd.DataFrame, list[str]]]:
    """Yields the rows of a file, PART at a time, and their SMILES."""
    for frame in frames_of(path, form):
        for begin in range(0, len(frame), PART):
            part = frame.iloc[begin : begin + PART]
            yield part, part[column_of(part, form.column, path)].str.strip().tolist()


class Writer:
    """Writes what a model says of molecules, part by part; counts them, and keeps the lines of the unread."""

    def __init__(self, model, args: argparse.Namespace, output: Path, files: ExitStack):
        self.model, self.pooling, self.embeds = model, args.pooling, args.what == "embed"
        self.rows, self.unread = 0, []
        self.about = output.with_name(f"{output.name}.remarks.tsv") if self.embeds else output
        if self.embeds:
            self.file = files.enter_context(atomic(output, "wb"))
            self.remarks = files.enter_context(atomic(self.about))
            self.remarks.write("row\tline\tsmiles\tremark\n")
            self.write_header()
        else:
            self.names = list(model.outputs.names)  # raises, before any work, if it predicts nothing
            self.file = files.enter_context(atomic(output))

    def write_header(self) -> None:
        """Writes the header of .npy, which leaves room for any number of rows."""
        shape = (self.rows, self.model.width)
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        self.file.seek(0)
        np.lib.format.write_array_header_1_0(self.file, header)

    def write(self, part: pd.DataFrame, smiles: list[str]) -> None:
        if self.embeds:
            found = list(self.model.embed(smiles, pooling=self.pooling))
            nothing = np.full(self.model.width, np.nan)
            rows = np.stack([nothing if vector is None else vector for vector, _ in found])
            self.file.write(rows.astype("<f4").tobytes())
            for i, (line, text, (_, remark)) in enumerate(zip(part.index, smiles, found, strict=True)):
                if remark:
                    cells = (self.rows + i + 1, line, plain_cell(text), plain_cell(remark))
                    self.remarks.write("\t".join(map(str, cells)) + "\n")
        else:
            found = list(self.model.predict(smiles))
            table, nothing = part.copy(), [""] * len(self.names)
            values = [
                nothing if row is None else [f"{value:.{DIGITS}g}" for value in row] for row, _ in found
            ]
            columns = [*zip(*values, strict=True), [remark for _, remark in found]]
            for name, column in zip([*map(plain_cell, self.names), "remark"], columns, strict=True):
                while name in table:
                    name += " (predicted)"
                table[name] = column
            self.file.write(table.to_csv(index=False, header=self.rows == 0))  # whole rows, if interrupted
        self.rows += len(part)
        self.unread += [line for line, (row, _) in zip(part.index, found, strict=True) if row is None]
        self.file.flush()


@script
def main(argv: list[str] | None = None) -> int:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("what", choices=tuple(ENDINGS))
    add("model", type=Path, help="a checkpoint, or a folder for transformers")
    add("molecules", type=Path, help="a table (.csv, .tsv), or one SMILES per line (.txt, .smi)")
    add("--output", type=Path, metavar="FILE", help="(default: named after the molecules, beside them)")
    add("--overwrite", action="store_true", help="replace an existing FILE")
    add_table_arguments(parser)
    add("--data", type=Path, metavar="DIR", help="folder of dict.txt (default: as the model says)")
    add(
        "--truncate",
        action="store_true",
        help="read the start of molecules that are too long, instead of none",
    )
    add("--smiles", choices=("canonical", "as-given"), help="(default: as in fine-tuning, or canonical)")
    valence = "atoms with too many bonds (default: as in fine-tuning, or check)"
    add("--valence", choices=("check", "allow"), help=valence)
    add("--batch-tokens", type=positive, default=4096, metavar="N", help="(default: %(default)s)")
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    pooling = "embed: the mean over the tokens (default), or the state of <s> (of ExLM its first)"
    add("--pooling", choices=("mean", "first"), default="mean", help=pooling)
    args = parser.parse_args(argv)
    output, parts = output_of(args), parts_of(args.molecules, TableFormat.of(args))
    if (first := next(parts, None)) is None:  # an unreadable file is refused before the model is loaded
        raise UserError(f"{args.molecules} has no molecules")
    from fs_plugins.data.text_codecs import Smiles
    from fs_plugins.inference import load

    model = load(
        args.model,
        data=args.data,
        device=args.device,
        batch_tokens=args.batch_tokens,
        truncate=args.truncate,
        canonical=None if args.smiles is None else args.smiles == "canonical",
        allow_valence=None if args.valence is None else args.valence == "allow",
    )
    if not isinstance(model.codec, Smiles):
        raise UserError(f"{args.model} is a model of text, for load(...) in Python: give one of SMILES")
    begin, ended = time.monotonic(), None
    with ExitStack() as files:
        writer = Writer(model, args, output, files)
        try:
            while first is not None:
                writer.write(*first)
                rate = writer.rows / (time.monotonic() - begin)
                print(f"\r{counted(writer.rows, 'molecule')}, {rate:,.0f} a second", end="", file=sys.stderr)
                try:
                    first = next(parts, None)
                except (ValueError, OSError) as error:  # of the input
                    first, ended = None, error
        except KeyboardInterrupt as error:
            if not writer.rows:
                raise  # leaves no file
            ended = error
        print(file=sys.stderr)
        if writer.embeds:
            writer.write_header()
    if (unread := writer.unread) and len(unread) == writer.rows and ended is None:
        raise UserError(f"none of {counted(writer.rows, 'molecule')} could be read: see {writer.about}")
    print(f"{output}: {counted(writer.rows, 'molecule')}")
    if unread:
        lines = ", ".join(map(str, unread[:10])) + (", ..." if len(unread) > 10 else "")
        print(f"{len(unread):,} could not be read (empty rows, with the reason): lines {lines}")
    if ended is not None:
        print("these are the rows so far; --overwrite begins anew", file=sys.stderr)
        if isinstance(ended, Exception):
            raise ended
        return 130
    return 0
