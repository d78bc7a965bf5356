"""A folder of transformers as a checkpoint that fairseq-train and the scripts here read.

    python scripts/import_huggingface.py trained/exlm checkpoints/exlm/imported.pt

The folder was made by export_huggingface.py, or saved from such a model by transformers (Trainer,
save_pretrained). Train on with --restore-file, --reset-optimizer, --reset-dataloader, --reset-meters and
--reset-lr-scheduler.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lib.command_line import argument_parser, run_main


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("folder", type=Path, help="with config.json and model.safetensors")
    add("checkpoint", type=Path, help="the file to write")
    add(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder of the pre-training's dict.txt, to be recorded in the checkpoint; "
        "without it, tools that read text with the checkpoint ask for it",
    )
    return parser.parse_args(argv)


def run(args: argparse.Namespace) -> None:
    from fs_plugins.huggingface.restore import restore

    print(restore(args.folder, args.checkpoint, args.data))


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    return run_main(lambda: run(args), "\ninterrupted: nothing was written")


if __name__ == "__main__":
    sys.exit(main())
