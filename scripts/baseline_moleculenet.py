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

from lib.command_line import argument_parser, count, positive, script
from lib.files import RESULT, claim, locked
from lib.moleculenet import dmpnn, forest
from lib.moleculenet.evaluate import SPLITS, Split, write_results

from fs_plugins.data.property_info import PropertyInfo, read_folder

NAMES = {"forest": "random forest", "dmpnn": "D-MPNN"}


@script
def main(argv: list[str] | None = None) -> None:
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
    info = PropertyInfo.from_dict(read_folder(args.data))
    own = "trees" if args.model == "forest" else "max_epoch"
    settings = {name: getattr(args, name) for name in ("model", "seed", own)}
    splits = {name: Split.read(args.data, name) for name in ("train", *SPLITS)}
    inputs = {name: split.sha256 for name, split in splits.items()}
    if args.model == "dmpnn":
        dmpnn.check_installed()
    with locked(args.save):
        claim(args.save, settings, inputs, sys.argv if argv is None else argv, (RESULT,))
        if (args.save / RESULT).exists():
            print(f"finished before: {args.save / RESULT}")
            return
        if args.model == "forest":
            options = {"n_estimators": args.trees, "random_state": args.seed, "n_jobs": args.jobs}
            predictions, more = forest.fit_and_predict(splits, info, **options), {}
        else:
            device = "cpu" if args.cpu else "auto"
            predictions, unread = dmpnn.fit_and_predict(splits, info, args.seed, args.max_epoch, device)
            more = {"unreadable": unread}
        write_results(args.save, args.data, NAMES[args.model], predictions, **more)


if __name__ == "__main__":
    sys.exit(main())
