"""Baselines of table 1, on the same splits and with the same metrics as the models.

    python scripts/baseline_moleculenet.py forest data-bin/bbbp runs/forest/bbbp/seed-1 --seed 1
    python scripts/baseline_moleculenet.py dmpnn data-bin/bbbp runs/dmpnn/bbbp/seed-1 --seed 1

forest: random forests on Morgan fingerprints, one for each property. dmpnn: D-MPNN by the package chemprop,
with its defaults. Writes what scripts/finetune_moleculenet.sh writes: SAVE/{valid,test}.predictions.csv and
result.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lib.command_line import argument_parser, count, positive, run_main
from lib.files import RESULT, claim, locked
from lib.moleculenet import dmpnn, forest
from lib.moleculenet.results import SPLITS, read_split, rows_sha256, summary, write_results

from fs_plugins.data.property_info import PropertyInfo, read_folder

NAMES = {"forest": "random forest", "dmpnn": "D-MPNN"}


def run(argv: list[str] | None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("model", choices=sorted(NAMES))
    add("data", type=Path, help="a folder made by scripts/prepare_moleculenet.py")
    add("save", type=Path, help="the folder for the results")
    add("--seed", type=count, default=1, metavar="N", help="(default: 1)")
    add("--trees", type=positive, default=500, metavar="N", help="of each forest (default: 500)")
    add("--jobs", type=positive, default=1, metavar="N", help="cores of the forest (default: 1)")
    add("--max-epoch", type=positive, default=50, metavar="N", help="of D-MPNN (default: 50)")
    add("--cpu", action="store_true", help="train D-MPNN on the CPU (default: on a GPU if there is one)")
    args = parser.parse_args(argv)
    folder = read_folder(args.data)
    info = PropertyInfo.from_dict(folder)
    own = "trees" if args.model == "forest" else "max_epoch"
    settings = {name: getattr(args, name) for name in ("model", "seed", own)}
    tables = {split: read_split(args.data, split, info) for split in ("train", *SPLITS)}
    inputs = {split: rows_sha256(*table) for split, table in tables.items()}
    smiles = {split: [row[1] for row in rows] for split, (rows, _) in tables.items()}
    labels = {split: found for split, (_, found) in tables.items()}
    if args.model == "dmpnn":
        dmpnn.check_installed()
    with locked(args.save):
        claim(args.save, settings, inputs, sys.argv if argv is None else argv, (RESULT,))
        if (args.save / RESULT).exists():
            print(f"finished before: {args.save / RESULT}")
            return
        more = {}
        if args.model == "forest":
            options = {"n_estimators": args.trees, "random_state": args.seed, "n_jobs": args.jobs}
            predictions = forest.fit_and_predict(smiles, labels["train"], info, **options)
        else:
            device = "cpu" if args.cpu else "auto"
            predictions, unread = dmpnn.fit_and_predict(
                smiles, labels, info, args.seed, args.max_epoch, device
            )
            for split, found in unread.items():
                if found:
                    done = "left out" if split == "train" else "predicted as the mean of the training labels"
                    some = f"{len(found)} of {len(smiles[split])} molecules, such as {found[0]}"
                    print(f"{split}: chemprop cannot read {some}: {done}")
            more["unreadable"] = {split: len(found) for split, found in unread.items()}
        name = NAMES[args.model]
        print(summary(write_results(args.save, folder, name, tables, info, predictions, **more)))


def main(argv: list[str] | None = None) -> int:
    return run_main(lambda: run(argv))


if __name__ == "__main__":
    sys.exit(main())
