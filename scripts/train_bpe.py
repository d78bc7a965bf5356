"""Trains a small byte-level BPE on text, for models that a vocabulary of 50,000 would be too much for.

    python scripts/train_bpe.py bpe/ wiki.txt.gz books/ --vocabulary 8000
    python scripts/prepare_text.py data-bin/text --train wiki.txt.gz books/ --bpe bpe/

reads what prepare_text.py reads, and writes bpe/tokenizer.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from recipes.corpora.blocks import PreparationError, Rejection, explained, write_atomically
from recipes.corpora.documents import blocks_of, files_in, layout_of
from recipes.corpora.text import paragraphs_of

LEAST_VOCABULARY = 300  # 256 bytes and some merges


def paragraphs(files: list[tuple[Path, bool]], megabytes: float) -> Iterator[str]:
    """Clean paragraphs, of each file as much as the limit's share for it."""
    rejections: list[Rejection] = []  # prepare_text.py lists them
    for path, in_folder in files:
        layout, left = layout_of(path, in_folder), megabytes * 1e6 / len(files)
        for block in blocks_of(path, layout):
            for piece in block.payload.pieces:
                for _, text in paragraphs_of(piece, layout, rejections)[0]:
                    left -= len(text)
                    yield text
            if left <= 0:
                break


def train_tokenizer(texts: Iterable[str], vocabulary: int):
    """A byte-level BPE, which can encode any text, of ``vocabulary`` tokens at most."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("output", type=Path, help="the folder to write tokenizer.json into")
    parser.add_argument("text", type=Path, nargs="+", metavar="PATH", help="files and folders of text")
    parser.add_argument("--vocabulary", type=int, default=8000, metavar="N", help="tokens (default: 8000)")
    parser.add_argument(
        "--megabytes", type=float, default=50, metavar="N", help="read that much in all (default: 50)"
    )
    args = parser.parse_args(arguments)
    try:
        if args.vocabulary < LEAST_VOCABULARY or not args.megabytes > 0:
            raise PreparationError(f"give --vocabulary {LEAST_VOCABULARY} or more, and --megabytes above 0")
        tokenizer = train_tokenizer(paragraphs(files_in(args.text), args.megabytes), args.vocabulary)
        args.output.mkdir(parents=True, exist_ok=True)
        content = tokenizer.to_str(pretty=True).encode()
        write_atomically(args.output / "tokenizer.json", lambda file: file.write(content))
        print(f"{args.output / 'tokenizer.json'}: {tokenizer.get_vocab_size():,} tokens")
    except PreparationError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: {explained(error, Path(error.filename or args.output))}")


if __name__ == "__main__":
    main()
