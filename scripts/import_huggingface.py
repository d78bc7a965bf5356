"""A folder of transformers as a checkpoint that fairseq-train and the scripts here read.

    python scripts/import_huggingface.py trained/exlm checkpoints/exlm/imported.pt

The folder was made by export_huggingface.py, or saved from such a model by transformers (Trainer,
save_pretrained). Train on with --restore-file, --reset-optimizer, --reset-dataloader, --reset-meters and
--reset-lr-scheduler.
"""

from __future__ import annotations

import argparse
import logging
import pickle
import sys
from pathlib import Path


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("folder", type=Path, help="with config.json and model.safetensors")
    add("checkpoint", type=Path, help="the file to write")
    add(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder of the pre-training's dict.txt, to be recorded in the checkpoint;\n"
        "without it, tools that read text with the checkpoint ask for it",
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    logging.basicConfig(level=logging.WARNING)  # before fairseq sets its own
    from fs_plugins.huggingface.restore import restore

    try:
        print(restore(args.folder, args.checkpoint, args.data))
    except (ValueError, OSError, RuntimeError, pickle.UnpicklingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
