"""Trains a byte-level BPE on text, for models too small for a vocabulary of 50,000.

    python scripts/train_bpe.py bpe/ wiki.txt.gz books/ --vocabulary 8000
    python scripts/prepare_text.py data-bin/text --train wiki.txt.gz books/ --bpe bpe/

Reads what prepare_text.py reads, at most 50 MB of it, and writes bpe/tokenizer.json.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from lib.command_line import UserError, argument_parser, counted, script, whole
from lib.data.documents import COLUMN, documents_of, layouts_of, paragraphs_of
from lib.files import write_lines
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from fs_plugins.files import check_absent

LEAST_VOCABULARY = 256  # the bytes, without merges
MOST_CHARACTERS = 50_000_000  # most characters to train on


def paragraphs(layouts: dict[Path, str], column: str = COLUMN, most: int = MOST_CHARACTERS) -> Iterator[str]:
    """Yields clean paragraphs, from each file its share of ``most`` characters."""
    for path, layout in layouts.items():
        left = most / len(layouts)
        for document in documents_of(path, layouts):
            for _, text in paragraphs_of(document, layout, column)[0]:
                left -= len(text)
                yield text
            if left <= 0:
                break


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Trains a byte-level BPE, which can encode any text. A blank goes before each text, so that its first
    word is like the others; without merges it would be a token of its own, and is left out."""
    tokenizer = Tokenizer(models.BPE())
    prefix = vocabulary > LEAST_VOCABULARY
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("output", type=Path, help="folder to write tokenizer.json into")
    add("text", type=Path, nargs="+", metavar="PATH", help="files and folders of text")
    size, about = whole(LEAST_VOCABULARY, 1_000_000), "tokens, 256: one a byte (default: %(default)s)"
    add("--vocabulary", type=size, default=8000, metavar="N", help=about)
    add(
        "--text-column", default=COLUMN, metavar="NAME", help="key of the text in JSON (default: %(default)s)"
    )
    add("--overwrite", action="store_true", help="replace an existing tokenizer.json")
    args = parser.parse_args(argv)
    path, column = args.output / "tokenizer.json", args.text_column
    check_absent(path, args.overwrite)
    texts = paragraphs(layouts_of(args.text), column)
    if (first := next(texts, None)) is None:  # training would make one of bytes
        raise UserError(f"there is no text to train on, in JSON under {column!r}: see --text-column")
    args.output.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(chain([first], texts), args.vocabulary)
    write_lines(path, [tokenizer.to_str(pretty=True)])
    print(f"{path}: {counted(tokenizer.get_vocab_size(), 'token')}")
