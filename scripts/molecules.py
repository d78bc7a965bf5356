"""Predicts properties of molecules with a fine-tuned checkpoint, or embeds molecules with any.

    python scripts/molecules.py predict runs/bbbp/seed-1/checkpoint_best.pt molecules.csv
    python scripts/molecules.py predict runs/bbbp/seed-*/checkpoint_best.pt molecules.csv
    python scripts/molecules.py embed checkpoints/exlm-smiles/checkpoint_best.pt molecules.csv

predict writes molecules.predictions.csv (or --output FILE.csv.gz): the columns of the table (of .smi the
SMILES and the name), each property (the probability of class 1, or the value in the units of the training
data) and a remark: why a molecule could not be read (its values are empty then), or what to be wary of, such
as tokens that the model does not know. Of several models it writes their mean, and beside it their standard
deviation (n - 1), which is how far they differ, not how far they are from the truth: that is the error on
their test sets, which it prints.

embed writes molecules.npy, float32 [molecules, hidden size], with rows of NaN for molecules that could not be
read, and the remarks (row from 1, SMILES, remark) in molecules.npy.remarks.tsv.

Rows are in the order of the input, of which any number fits in bounded memory.
"""

import argparse
import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import tee
from pathlib import Path

import lib  # noqa: F401  (finds the environment)
import numpy as np
from lib.command_line import UserError, argument_parser, counted, positive, script
from lib.data.molecules import header_of, records_in
from lib.data.tables import TableFormat, add_table_arguments
from lib.data.text_files import COMPRESSED, compressed
from lib.files import DIGITS, RESULT, digits, plain_cell, read_json, tsv_line

from fs_plugins.files import atomic, check_absent


def remarks_of(output: Path) -> Path:
    """Returns the file of embed's remarks."""
    return output.with_name(f"{output.name}.remarks.tsv")


def output_of(args: argparse.Namespace) -> Path:
    """Returns ``args.output``, or a file named after the molecules; its folder is made. Raises
    FileExistsError if it exists and is not to be overwritten, UserError if its name says another format."""
    path = args.molecules.with_suffix("") if args.molecules.suffix.lower() in COMPRESSED else args.molecules
    ending = ".npy" if args.what == "embed" else ".predictions.csv"
    output = args.output or path.with_name(path.stem + ending)
    formats = (".npy",) if args.what == "embed" else tuple(f".csv{packed}" for packed in ("", *COMPRESSED))
    if not output.name.lower().endswith(formats):
        raise UserError(f"--output {output}: {args.what} writes {' or '.join(formats)}, name the file so")
    check_absent(output, args.overwrite)
    output.parent.mkdir(parents=True, exist_ok=True)
    return output


def predict(output: Path, header: Sequence[str], rows: Iterable[tuple], names: Sequence[str]) -> Counter:
    """Writes the cells of each record, the values and a remark; counts whether molecules could be read.

    Args:
        header: of the cells.
        rows: (record, (values, remark)); values are None if the molecule could not be read.
        names: of the values. Where the header has one of these, or "remark", it gets " (predicted)".
    """
    counts, more = Counter(), []
    for name in map(plain_cell, (*names, "remark")):
        while name in (*header, *more):
            name += " (predicted)"
        more.append(name)
    with atomic(output, "wb") as raw, compressed(raw, output) as packed:
        file = io.TextIOWrapper(packed, "utf-8", "surrogateescape", newline="")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*header, *more])
        for record, (values, remark) in rows:
            counts[values is not None] += 1
            cells = [*record.cells, *[""] * len(header)][: len(header)]
            remark = record.fault or remark
            if beyond := [cell for cell in record.cells[len(header) :] if cell.strip()]:
                size = f"{len(record.cells)} cells, but the header has {len(header)}: {', '.join(beyond)}"
                remark = f"{size}; {remark}" if remark else size
            shown = [""] * len(names) if values is None else [f"{value:.{DIGITS}g}" for value in values]
            writer.writerow([*cells, *shown, remark])
        file.detach()
    return counts


def predictions(models: Sequence, texts: Sequence[Iterable[str]]) -> tuple[list[str], Iterable[tuple]]:
    """Returns the names of what models predict, and a row of each text: the values and a remark; of several
    models the mean and the standard deviation of each value. Raises ValueError, before any work, if a model
    predicts nothing, or something else than the first."""
    names = list(models[0].outputs.names)
    for model in models:
        if (model.outputs.problem, list(model.outputs.names)) != (models[0].outputs.problem, names):
            raise UserError(f"{model.checkpoint.path} predicts {model.outputs}, not {models[0].outputs}")
    rows = zip(*(model.predict(some) for model, some in zip(models, texts, strict=True)), strict=True)
    if len(models) == 1:
        return names, (row for (row,) in rows)

    def together(several: Sequence[tuple]) -> tuple:
        remarks = "; ".join(dict.fromkeys(remark for _, remark in several if remark))
        if any(values is None for values, _ in several):
            return None, remarks
        values = np.stack([values for values, _ in several])
        return np.stack([values.mean(0), values.std(0, ddof=1)], 1).ravel(), remarks

    return [part for name in names for part in (name, f"{name} (std)")], map(together, rows)


def tested(models: Sequence[Path]) -> str:
    """Returns what models were worth on their test sets, by result.json beside them; "" if nothing is."""
    shown = []
    for path in models:
        one = (read_json(path.parent / RESULT) if path.is_file() else None) or {}
        test, names = one.get("metrics", {}).get("test", {}), (one.get("metric"), "r2")
        shown.append(", ".join(f"{n} {digits(test[n])}" for n in names if test.get(n) is not None))
    return f"on the test set of the training: {'; '.join(filter(None, shown))}" if any(shown) else ""


def embed(output: Path, rows: Iterable[tuple], shape: tuple[int, int]) -> Counter:
    """Writes vectors and remarks; ``rows`` and the counts are as in :func:`predict`."""
    counts, header = Counter(), {"descr": "<f4", "fortran_order": False, "shape": shape}
    with atomic(output, "wb") as file, atomic(remarks_of(output)) as remarks:
        np.lib.format.write_array_header_1_0(file, header)
        remarks.write("row\tsmiles\tremark\n")
        for row, (record, (vector, remark)) in enumerate(rows, start=1):
            text = record.content.decode(errors="backslashreplace")
            counts[vector is not None] += 1
            vector = np.full(shape[1], np.nan) if vector is None else vector
            file.write(np.asarray(vector, "<f4").tobytes())
            if record.fault or remark:
                remarks.write(tsv_line(row, text, record.fault or remark) + "\n")
    return counts


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("what", choices=("predict", "embed"))
    add("model", type=Path, nargs="+", help="a checkpoint, or a folder for transformers; predict: or several")
    add("molecules", type=Path, help="a table (.csv, .tsv, .parquet), or one SMILES per line (.txt, .smi)")
    add("--output", type=Path, metavar="FILE", help="(default: named after the molecules, beside them)")
    add("--overwrite", action="store_true", help="replace an existing FILE")
    add_table_arguments(parser)
    add("--data", type=Path, metavar="DIR", help="folder of dict.txt (default: as the model says)")
    add("--truncate", action="store_true", help="truncate molecules longer than the checkpoint's positions")
    add("--smiles", choices=("canonical", "as-given"), help="(default: as in fine-tuning, or canonical)")
    valence = "atoms with too many bonds (default: as in fine-tuning, or check)"
    add("--valence", choices=("check", "allow"), help=valence)
    add("--batch-tokens", type=positive, default=16384, metavar="N", help="(default: %(default)s)")
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    pooling = "embed: the mean over the tokens (default), or the state of <s> (of ExLM its first)"
    add("--pooling", choices=("mean", "first"), default="mean", help=pooling)
    args = parser.parse_args(argv)
    if args.what == "embed" and len(args.model) > 1:
        raise UserError(f"embed takes one model, not {len(args.model)}: embed with each by itself")
    output, form = output_of(args), TableFormat.of(args)
    header = header_of(args.molecules, form)  # an unreadable file is refused before the model is loaded
    from fs_plugins.data.text_codecs import Smiles
    from fs_plugins.inference import load

    settings = {
        "data": args.data,
        "device": args.device,
        "batch_tokens": args.batch_tokens,
        "truncate": args.truncate,
        "canonical": None if args.smiles is None else args.smiles == "canonical",
        "allow_valence": None if args.valence is None else args.valence == "allow",
    }
    models = [load(path, **settings) for path in args.model]
    for model, path in zip(models, args.model, strict=True):
        if not isinstance(model.codec, Smiles):
            raise UserError(f"{path} is a model of text, for load(...).embed in Python: give one of SMILES")
    read = partial(records_in, args.molecules, form)
    records, *ahead = tee(read(), 1 + len(models))
    texts = [
        ("" if record.fault else record.content.decode(errors="backslashreplace") for record in some)
        for some in ahead
    ]
    if args.what == "predict":
        names, rows = predictions(models, texts)
        counts = predict(output, header, zip(records, rows, strict=True), names)
    else:
        [model], [texts] = models, texts
        rows = zip(records, model.embed(texts, pooling=args.pooling), strict=True)
        counts = embed(output, rows, (sum(1 for _ in read()), model.width))
    if (unread := counts[False]) and not counts[True]:
        remarks = remarks_of(output) if args.what == "embed" else output
        why = f"see the remarks in {remarks} (--overwrite replaces it)"
        raise UserError(f"none of {counted(unread, 'molecule')} could be read: {why}")
    failed = f", {unread:,} of them could not be read (empty rows, with the reason)" if unread else ""
    print(f"{output}: {counted(counts.total(), 'molecule')}{failed}")
    if args.what == "predict" and (scores := tested(args.model)):
        print(scores)
