"""Raw text to what pretrain_text.sh trains on: cleaned, tokenised by a BPE, split and binarised for fairseq.

    python scripts/prepare_text.py data-bin/text --train wiki.txt.gz books/ --bpe encoder.json vocab.bpe \\
        --dictionary dict.txt --workers 16

reads, plain or .gz: a paragraph a line with an empty line between documents; WikiExtractor's output, <doc>
or JSON; folders of books, one a file. What cannot be read is listed in rejected.tsv. A run that was
interrupted, in whatever way, goes on when the same command is given again. The result does not depend on
--workers. docs/data.md has the rest.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path

from recipes.corpora.binarise import binarise, input_state
from recipes.corpora.blocks import PreparationError, explained, write_atomically
from recipes.corpora.bpe import GPT2_FILES, HF_FILE, Bpe, TextEncoder, dictionary_of
from recipes.corpora.corpus_arguments import add_corpus_arguments, check_corpus_arguments, show_rejected
from recipes.corpora.documents import BLOCK_BYTES, LAYOUTS, PIECE_BYTES, blocks_of, files_in, layout_of

VALID_SHARE = 0.005
AUTO = "auto"


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add("output", type=Path, help="the folder to make: train, valid, dict.txt, the BPE, rejected.tsv")
    add("--train", type=Path, nargs="+", required=True, metavar="PATH", help="files and folders to train on")
    add("--valid", type=Path, nargs="+", default=[], metavar="PATH", help="those to validate on")
    add("--bpe", nargs="+", required=True, metavar="FILE", help="encoder.json vocab.bpe, or tokenizer.json")
    add(
        "--dictionary",
        type=Path,
        metavar="FILE",
        help="an existing dict.txt (default: one of all BPE tokens)",
    )
    add("--layout", choices=(AUTO, *LAYOUTS), default=AUTO, help="of all files (default: as each begins)")
    add(
        "--max-tokens",
        type=int,
        metavar="N",
        help="cut longer paragraphs (for --sample-break-mode complete*)",
    )
    add("--shards", type=int, default=1, metavar="N", help="cut the training set into N folders for fairseq")
    add_corpus_arguments(parser, VALID_SHARE)
    return parser.parse_args(arguments)


def check_arguments(args: argparse.Namespace) -> None:
    check_corpus_arguments(args, VALID_SHARE)
    if args.max_tokens is not None and args.max_tokens < 1:
        raise PreparationError(f"--max-tokens {args.max_tokens}: give 1 or more")
    if not 1 <= args.shards <= 1000:
        raise PreparationError(f"--shards {args.shards}: give a number from 1 to 1000")
    if ":" in str(args.output):
        raise PreparationError(f"{args.output}: fairseq takes a folder without ':' in its name")


def encoder_of(args: argparse.Namespace, scratch: Path) -> TextEncoder:
    """The BPE with the dictionary, which is written to a folder of this run's own where none is given: the
    output folder may be another run's."""
    bpe = Bpe(args.bpe[0] if len(args.bpe) == 1 else args.bpe)
    if args.dictionary is None:
        args.dictionary = scratch / "dict.txt"
        args.dictionary.write_text(dictionary_of(bpe), encoding="utf-8")
    return TextEncoder(bpe, args.dictionary)


def settings_of(args: argparse.Namespace, encoder: TextEncoder, files: dict[str, list[Path]]) -> dict:
    """All that the result depends on."""
    import tokenizers

    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    return {
        "program": "prepare_text",
        **{split: input_state(paths) for split, paths in files.items()},
        "valid_share": args.valid_share,
        "layout": args.layout,
        "shards": args.shards,
        "max_tokens": args.max_tokens,
        "bpe": [digest(path) for path in encoder.bpe.files],
        "dictionary": digest(args.dictionary),
        "block": [BLOCK_BYTES, PIECE_BYTES],
        "tokenizers": tokenizers.__version__,
    }


def splits_of(shards: int) -> tuple[str, ...]:
    if shards == 1:
        return ("train", "valid")
    return (*(f"shard{i}/train" for i in range(shards)), "shard0/valid")


def copy(source: Path, target: Path) -> None:
    content = source.read_bytes()
    if not target.exists() or target.read_bytes() != content:
        write_atomically(target, lambda file: file.write(content))


def finish(args: argparse.Namespace, encoder: TextEncoder) -> None:
    """The BPE beside the dictionary, by the names that fine-tuning looks for; a dictionary in each shard."""
    names = (HF_FILE,) if len(encoder.bpe.files) == 1 else GPT2_FILES
    for path, name in zip(encoder.bpe.files, names, strict=True):
        copy(path, args.output / name)
    if args.shards > 1:
        for i in range(args.shards):
            copy(args.output / "dict.txt", args.output / f"shard{i}" / "dict.txt")


def show(args: argparse.Namespace, result: dict) -> None:
    for split in splits_of(args.shards):
        print(f"{split}: {result[split]['sentences']:,} sentences, {result[split]['tokens']:,} tokens")
    print(
        f"{result['documents']:,} documents, {result['paragraphs']:,} paragraphs "
        f"({result['paragraphs cut']:,} cut); left out as empty: "
        f"{result['empty documents']:,} documents, {result['empty paragraphs']:,} paragraphs"
    )
    show_rejected(result["rejected"], args.output)
    if args.shards > 1:
        print(f"data: {':'.join(str(args.output / f'shard{i}') for i in range(args.shards))}")


def prepare(args: argparse.Namespace, scratch: Path) -> None:
    files = {"train": files_in(args.train), "valid": files_in(args.valid)}
    both = {path.resolve() for path, _ in files["train"]} & {p.resolve() for p, _ in files["valid"]}
    if both:
        raise PreparationError(f"{min(both)} is given both to --train and to --valid")
    layouts = {
        path: layout_of(path, in_folder) if args.layout == AUTO else args.layout
        for paths in files.values()
        for path, in_folder in paths
    }
    encoder = encoder_of(args, scratch)
    from recipes.corpora.text import TextBlockEncoder

    valid = frozenset(str(path) for path, _ in files["valid"])
    named = {split: [path for path, _ in paths] for split, paths in files.items()}
    result = binarise(
        args.output,
        settings_of(args, encoder, named),
        lambda: (block for path, layout in layouts.items() for block in blocks_of(path, layout)),
        TextBlockEncoder(encoder, valid, args.valid_share, args.shards, args.max_tokens),
        splits=splits_of(args.shards),
        dictionary=args.dictionary,
        workers=args.workers,
        total_weight=sum(path.stat().st_size for path in layouts),
        overwrite=args.overwrite,
    )
    finish(args, encoder)
    show(args, result)


def main(arguments: list[str] | None = None) -> None:
    args = parse_arguments(arguments)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a worker is a process
    try:
        check_arguments(args)
        with tempfile.TemporaryDirectory() as scratch:
            prepare(args, Path(scratch))
    except (PreparationError, ValueError) as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: {explained(error, Path(error.filename or args.output))}")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted: the same command goes on where it stood")


if __name__ == "__main__":
    main()
