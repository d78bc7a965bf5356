#!/usr/bin/env python
"""SQuAD JSON to what --task squad2 reads.

    python scripts/prepare_squad.py squad-bin --data data-bin/wiki --bpe gpt2_bpe \
        --train train-v2.0.json --valid dev-v2.0.json

writes squad-bin/{train,valid}.{npz,json} and the dictionary of the pre-training. Text is tokenised once,
here, with the offset of every token; windows are made when the task loads, as their size is the model's.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from pathlib import Path

from recipes.corpora.blocks import PreparationError, explained, locked
from recipes.corpora.bpe import TextEncoder, UnknownTokenError
from recipes.corpora.encoder_arguments import add_encoder_arguments, encoder_of

from fs_plugins.data import squad_tokens
from fs_plugins.data.squad import Squad, read_squad


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog="Splits of other names: --split NAME FILE ..."
    )
    add = result.add_argument
    add("output", type=Path, help="the folder to write into")
    add_encoder_arguments(result)
    for split in ("train", "valid"):
        add(
            f"--{split}",
            nargs="+",
            type=Path,
            metavar="FILE",
            help=f"SQuAD JSON, plain or .gz, of split {split}",
        )
    add("--split", nargs="+", action="append", default=[], metavar="NAME FILE", help="another split")
    add("--strict", action="store_true", help="an answer that is not in its context is an error")
    return result


def splits_of(args) -> dict[str, list[Path]]:
    """Split -> its files."""
    splits = {name: getattr(args, name) for name in ("train", "valid") if getattr(args, name)}
    for name, *files in args.split:
        if not files or name in splits or not re.fullmatch(r"\w[\w.-]*", name):
            raise ValueError(f"--split {name}: give a new name, and files")
        splits[name] = list(map(Path, files))
    if not splits:
        raise ValueError("give --train, --valid or --split, and SQuAD files")
    return splits


def tokenise(squad: Squad, encoder: TextEncoder, settings: dict) -> squad_tokens.TokenizedSquad:
    """The split in ids of the dictionary.

    Raises:
        ValueError: for a token that the dictionary does not know, naming the question or context.
    """
    contexts = _encode(squad.contexts, encoder, lambda i: f"the context {squad.contexts[i][:40]!r}")
    texts = [question.text.strip() for question in squad.questions]
    questions = _encode(texts, encoder, lambda i: f"question {squad.questions[i].id}")
    ragged = squad_tokens.Ragged.of
    return squad_tokens.TokenizedSquad(
        squad,
        ragged([tokens.astype("int32") for tokens, _ in contexts]),
        ragged([offsets for _, offsets in contexts]),
        ragged([tokens.astype("int32") for tokens, _ in questions]),
        settings,
    )


def _encode(texts, encoder: TextEncoder, name):
    try:
        return encoder.encode_with_offsets(texts)
    except UnknownTokenError as error:
        raise ValueError(f"{name(error.index)}: {error}; or --allow-unknown") from None


def copy_dictionary(source: Path, folder: Path) -> None:
    """FOLDER/dict.txt; one that is there already has to be the same, as other splits depend on it.

    Raises:
        ValueError: if it is another one.
    """
    target = folder / "dict.txt"
    if target.exists() and target.read_bytes() != source.read_bytes():
        raise ValueError(f"{target} is not {source}: write into another folder, or remove this one")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / ".dict.txt.part"
    shutil.copyfile(source, part)
    os.replace(part, target)


def write(output: Path, splits: dict[str, Squad], encoder: TextEncoder) -> None:
    """The splits into the folder, and what came of each on the screen."""
    copy_dictionary(encoder.dictionary_path, output)
    settings = {
        "dictionary": squad_tokens.dictionary_hash(output),
        "bpe": [str(path) for path in encoder.bpe.files],
    }
    for name, squad in splits.items():
        split = tokenise(squad, encoder, settings)
        squad_tokens.save(split, output, name)
        unanswerable = sum(not question.answers for question in squad.questions)
        print(
            f"  {name}: {len(squad.questions):,} questions ({unanswerable:,} without an answer) on "
            f"{len(squad.contexts):,} contexts of {len(split.context_tokens.values):,} tokens"
        )
        for ids, what in (
            (squad.not_in_context, "not in its context"),
            (squad.moved, "not at its answer_start, and taken at its nearest occurrence"),
        ):
            if ids:
                print(f"  {name}: {len(ids):,} questions have an answer {what}: {', '.join(ids[:5])}")
    if encoder.unknown:
        print(f"  {encoder.unknown:,} tokens are unknown to the dictionary and became <unk>")


def main(argv=None) -> int:
    args = parser().parse_args(argv)
    try:
        splits, encoder = splits_of(args), encoder_of(args)
        read = {name: read_squad(files, args.strict) for name, files in splits.items()}
        with locked(args.output):
            write(args.output, read, encoder)
    except (ValueError, PreparationError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {explained(error, Path(error.filename or args.output / 'dict.txt'))}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
