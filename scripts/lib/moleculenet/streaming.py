"""Molecules in, rows out, in the same order: what predict_molecules.py and embed_molecules.py share."""

from __future__ import annotations

import argparse
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lib.command_line import UserError, argument_parser, positive
from lib.corpora.readers import DEFAULT_COLUMN, records_in


def parser(doc: str) -> argparse.ArgumentParser:
    """The arguments of both scripts."""
    result = argument_parser(doc)
    add = result.add_argument
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
    return result


def load_model(args: argparse.Namespace):
    """The MoleculeModel that the arguments ask for.

    Raises:
        UserError: for a checkpoint that is damaged or of other weights.
    """
    from fs_plugins.analysis.checkpoint import load_checkpoint
    from fs_plugins.analysis.molecules import MoleculeModel

    try:
        checkpoint = load_checkpoint(args.checkpoint, args.data, args.device)
    except (RuntimeError, pickle.UnpicklingError) as error:
        raise UserError(f"{args.checkpoint} cannot be loaded: {error}") from error
    return MoleculeModel(
        checkpoint,
        batch_tokens=args.batch_tokens,
        truncate=args.truncate,
        canonical=None if args.smiles is None else args.smiles == "canonical",
        allow_valence=None if args.valence is None else args.valence == "allow",
    )


def smiles_of(path: Path, column: str) -> Iterator[str]:
    """The SMILES of each row or line, "" if there is none, and all of a row with a wrong number of cells.

    Raises:
        UserError: if the file cannot be read, or has no such column.
    """
    for record in records_in(path, column):
        text = record.content.decode("utf-8", errors="backslashreplace")
        yield "" if record.fault and "," not in text else text  # a single cell could pass for a SMILES


def results_of(args: argparse.Namespace, model: Callable) -> Iterator[tuple]:
    """(SMILES, result, remark) of each molecule.

    Args:
        model: an iterator of SMILES to an iterator of (result, remark) in the same order, which may read
            ahead; a result of None is of a molecule that could not be read.
    """
    waiting: deque[str] = deque()

    def remembered() -> Iterator[str]:
        for smiles in smiles_of(args.molecules, args.smiles_column):
            waiting.append(smiles)
            yield smiles

    for result in model(remembered()):
        yield waiting.popleft(), *result


def output_of(args: argparse.Namespace, ending: str) -> Path:
    """``args.output``, or the molecules' name with another ending; its folder is made.

    Raises:
        UserError: if it is the input, or a folder.
    """
    output = args.output
    if output is None:
        stem = args.molecules.name.removesuffix(".gz").rsplit(".", 1)[0]
        output = args.molecules.with_name(stem + ending)
    if output.is_dir():
        raise UserError(f"--output {output} is a folder: name a file")
    if output.exists() and args.molecules.exists() and output.samefile(args.molecules):
        raise UserError(f"--output {output} is the file of the molecules: choose another")
    output.parent.mkdir(parents=True, exist_ok=True)
    return output


class Counted:
    """Counts results on their way: all ``rows``, ``bad`` ones, and others with a remark (``remarked``)."""

    def __init__(self, results: Iterable[tuple]):
        self.results = results
        self.rows = self.bad = self.remarked = 0

    def __iter__(self) -> Iterator[tuple]:
        for smiles, result, remark in self.results:
            self.rows += 1
            self.bad += result is None
            self.remarked += result is not None and bool(remark)
            yield smiles, result, remark

    def summary(self, output: Path) -> str:
        """What was done.

        Raises:
            UserError: if no molecule could be read at all.
        """
        if self.rows and self.bad == self.rows:
            raise UserError(f"none of {self.rows:,} molecules could be read: see the remarks in {output}")
        text = f"{output}: {self.rows:,} molecules"
        if self.bad:
            text += f", {self.bad:,} of them could not be read (empty rows, with the reason)"
        if self.remarked:
            text += f", {self.remarked:,} with a remark"
        return text
