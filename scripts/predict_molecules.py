"""Properties of molecules by a fine-tuned checkpoint, as CSV.

    python scripts/predict_molecules.py runs/bbbp/seed-1/checkpoint_best.pt molecules.csv

writes molecules.predictions.csv: a row for each molecule, in their order, with its SMILES, each property (the
probability of class 1, or the value in the units of the training data) and a remark: why a molecule could not
be read (its cells are empty then), or what to be wary of, such as tokens that the model does not know. Any
number of molecules in bounded memory. The checkpoint alone is enough: it holds its dictionary and the names
of the properties.
"""

from __future__ import annotations

import argparse
import csv
import logging
import os

from recipes.moleculenet import streaming


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    streaming.add_arguments(parser)
    return parser.parse_args(argv)


def run(args: argparse.Namespace) -> str:
    output = streaming.default_output(args, ".predictions.csv")
    logging.basicConfig(level=logging.WARNING, force=True)
    model = streaming.load_model(args)
    model.head  # noqa: B018  (raises if it predicts nothing)
    predictions = streaming.beside(streaming.smiles_of(args.molecules, args.smiles_column), model.predict)
    rows = bad = remarked = 0
    partial = output.with_name(output.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["smiles", *model.properties.names, "remark"])
            empty = [""] * len(model.properties.names)
            for smiles, values, remark in predictions:
                cells = empty if values is None else [f"{value:.6g}" for value in values]
                writer.writerow([smiles, *cells, remark])
                rows, bad = rows + 1, bad + (values is None)
                remarked += values is not None and bool(remark)
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)
    return streaming.summary(rows, bad, remarked, output)


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    try:
        print(run(args))
    except streaming.CAUGHT as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
