"""Predicts properties of molecules with a fine-tuned checkpoint, as CSV.

    python scripts/predict_molecules.py runs/bbbp/seed-1/checkpoint_best.pt molecules.csv

Writes molecules.predictions.csv: a row for each molecule, in the same order, with its SMILES, each property
(the probability of class 1, or the value in the units of the training data) and a remark: why a molecule
could not be read (its cells are empty then), or what to be wary of, such as tokens that the model does not
know. Any number of molecules in bounded memory. The checkpoint is enough: it holds its dictionary and the
names of the properties.
"""

from __future__ import annotations

import argparse
import csv
import sys

from lib.command_line import run_main
from lib.files import atomic
from lib.moleculenet import streaming


def run(args: argparse.Namespace) -> None:
    output = streaming.output_of(args, ".predictions.csv")
    model = streaming.load_model(args)
    model.head  # noqa: B018  (raises if it predicts nothing)
    names = model.properties.names
    results = streaming.Counted(streaming.results_of(args, model.predict))
    with atomic(output) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["smiles", *names, "remark"])
        for smiles, values, remark in results:
            cells = [""] * len(names) if values is None else [f"{value:.6g}" for value in values]
            writer.writerow([smiles, *cells, remark])
    print(results.summary(output))


def main(arguments: list[str] | None = None) -> int:
    args = streaming.parser(__doc__).parse_args(arguments)
    return run_main(lambda: run(args), "\ninterrupted: nothing was written")


if __name__ == "__main__":
    sys.exit(main())
