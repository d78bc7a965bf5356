"""A checkpoint as a folder that transformers loads, with neither fairseq nor this package.

    python scripts/export_huggingface.py checkpoints/exlm/checkpoint_best.pt exported/exlm

Then AutoTokenizer, AutoModel, AutoModelForMaskedLM, ..., pipeline and SentenceTransformer load exported/exlm
with trust_remote_code=True. docs/huggingface.md has examples.
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
    add("checkpoint", type=Path, help="pre-trained, or fine-tuned on GLUE, SQuAD or molecules")
    add("folder", type=Path, help="the folder to make")
    add(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder of the pre-training's dict.txt\n(default: as trained)",
    )
    add(
        "--bpe",
        nargs="+",
        metavar="FILE",
        help="how the corpus was written: encoder.json and vocab.bpe (GPT-2 BPE), a\n"
        "tokenizer.json, smiles, or none for symbols between blanks\n"
        "(default: what lies beside the dictionary)",
    )
    add(
        "--pooling",
        choices=("cls", "mean"),
        default="cls",
        help="of SentenceTransformer: the row of <s>, or the mean over all tokens,\n"
        "<s> and </s> among them (default: cls)",
    )
    add("--name", help="of the model, for its card (default: the folder's)")
    add("--license", help="of the model, for its card, such as mit (default: left open)")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    logging.basicConfig(level=logging.WARNING)  # before fairseq sets its own
    from fs_plugins.huggingface.export import export

    try:
        folder = export(
            args.checkpoint,
            args.folder,
            data=args.data,
            bpe=args.bpe,
            pooling=args.pooling,
            name=args.name,
            licence=args.license,
        )
    except (ValueError, OSError, RuntimeError, pickle.UnpicklingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
