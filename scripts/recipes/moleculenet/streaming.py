"""Molecules in, rows out, in the same order: what predicting and embedding share."""

from __future__ import annotations

import argparse
import pickle
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from recipes.moleculenet.reading import UNREADABLE, InputError, column_of, csv_rows, open_text, unreadable

ENDINGS = (".csv", ".smi", ".smiles", ".txt")
CAUGHT = (InputError, ValueError, OSError, RuntimeError, pickle.UnpicklingError)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", type=Path, help="of exlm_*, mlm_*, p_roberta* or p_roberta_ext_denselink*")
    add("molecules", type=Path, help="a CSV (.csv, .csv.gz) with a header, or text with a SMILES a line")
    add("--output", type=Path, metavar="FILE", help="(default: beside the molecules, named after them)")
    add("--smiles-column", default="smiles", metavar="NAME", help="of a CSV (default: smiles)")
    add("--data", type=Path, metavar="DIR", help="folder of dict.txt (default: known to the checkpoint)")
    add(
        "--truncate",
        action="store_true",
        help="read the start of molecules longer than the positions",
    )
    add("--smiles", choices=("canonical", "as-given"), help="(default: as in fine-tuning; else canonical)")
    add("--valence", choices=("check", "allow"), help="atoms with too many bonds (default: likewise)")
    add(
        "--batch-tokens",
        type=int,
        default=16384,
        metavar="N",
        help="of a batch (default: %(default)s)",
    )
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")


def load_model(args: argparse.Namespace):
    """The MoleculeModel that the arguments ask for."""
    from fs_plugins.analysis.checkpoint import load_checkpoint
    from fs_plugins.analysis.molecules import MoleculeModel

    return MoleculeModel(
        load_checkpoint(args.checkpoint, args.data, args.device),
        batch_tokens=args.batch_tokens,
        truncate=args.truncate,
        canonical=None if args.smiles is None else args.smiles == "canonical",
        allow_valence=None if args.valence is None else args.valence == "allow",
    )


def smiles_of(path: Path, column: str) -> Iterator[str]:
    """The SMILES of each row or line after the header, "" where there is none; a row lost is no option.

    Raises:
        InputError: if the file cannot be read, or has no such column.
    """
    ending = Path(path.name.removesuffix(".gz")).suffix.lower()
    if ending not in ENDINGS:
        raise InputError(
            f"{path}: what is in it? Molecules are read from .csv (--smiles-column), and from .smi, .smiles "
            "and .txt with a SMILES a line, also as .gz: rename or convert it"
        )
    if ending != ".csv":
        try:
            with open_text(path) as file:
                for line in file:
                    yield (line.split() or [""])[0]
        except UNREADABLE as error:
            raise InputError(unreadable(path, error)) from error
        return
    lines = csv_rows(path)
    try:
        _, header = next(lines)
    except StopIteration:
        raise InputError(f"{path} is empty") from None
    at = column_of([cell.strip() for cell in header], column, path)
    for _, cells in lines:
        if at and any(cell.strip() for cell in cells[len(header) :]):
            # A comma too many before the SMILES moves them: what stands in their place may be a molecule, but
            # another. The whole row is none, and is told as such.
            yield ",".join(cells)
        else:
            yield cells[at].strip() if at < len(cells) else ""


def beside(smiles: Iterable[str], function) -> Iterator[tuple]:
    """(SMILES, *result) for each of ``function``'s results, which come in order, though it reads ahead."""
    waiting: deque[str] = deque()

    def remembered() -> Iterator[str]:
        for string in smiles:
            waiting.append(string)
            yield string

    for result in function(remembered()):
        yield waiting.popleft(), *result


def count_rows(path: Path, column: str) -> int:
    """Rows of the file, which is read once for it; raises as ``smiles_of``."""
    return sum(1 for _ in smiles_of(path, column))


def default_output(args: argparse.Namespace, ending: str) -> Path:
    """``args.output``, or the molecules' own name with another ending; its folder is made.

    Raises:
        InputError: if it is the input, or a folder.
    """
    output = args.output
    if output is None:
        stem = args.molecules.name.removesuffix(".gz").rsplit(".", 1)[0]
        output = args.molecules.with_name(stem + ending)
    if output.is_dir():
        raise InputError(f"--output {output} is a folder: name a file")
    if output.exists() and args.molecules.exists() and output.samefile(args.molecules):
        raise InputError(f"--output {output} is the file of the molecules: choose another")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot make the folder {output.parent} ({error.strerror}): name another --output"
        ) from error
    return output


def summary(rows: int, bad: int, remarked: int, output: Path) -> str:
    """What was done.

    Raises:
        InputError: if no molecule could be read at all.
    """
    if rows and bad == rows:
        raise InputError(f"none of {rows:,} molecules could be read: {output} has the reasons")
    text = f"{output}: {rows:,} molecules"
    if bad:
        text += f", {bad:,} of them could not be read (empty rows, with the reason)"
    if remarked:
        text += f", {remarked:,} with a remark"
    return text
