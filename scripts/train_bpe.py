"""Trains a byte-level BPE on text, for models too small for a vocabulary of 50,000.

    python scripts/train_bpe.py bpe/ wiki.txt.gz books/ --vocabulary 8000
    python scripts/prepare_text.py data-bin/text --train wiki.txt.gz books/ --bpe bpe/

Reads what prepare_text.py reads, and writes bpe/tokenizer.json.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from lib.command_line import above_zero, argument_parser, script, whole
from lib.data.binarise import reason_of
from lib.data.documents import COLUMN, LOST, documents_of, layouts_of
from lib.data.text import paragraphs_of
from lib.files import check_absent, write_lines
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

LEAST_VOCABULARY = 256  # the bytes, without merges


def paragraphs(
    layouts: dict[Path, str], megabytes: float, column: str = COLUMN, left_out: Counter | None = None
) -> Iterator[str]:
    """Clean paragraphs, from each file its share of the limit; counts what is ``left_out``, by reason."""
    left_out = Counter() if left_out is None else left_out
    for path in layouts:
        left = megabytes * 1e6 / len(layouts)
        for document in documents_of(path, layouts, column):
            if document.fault.startswith(LOST):
                left_out[reason_of(document.fault.removeprefix(LOST))] += 1
                continue
            rejections = []
            for _, text in paragraphs_of(document, rejections, Counter(), column)[0]:
                left -= len(text)
                yield text
            left_out.update(reason_of(row.reason) for row in rejections)
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
    size = whole(LEAST_VOCABULARY, 1_000_000)
    add(
        "--vocabulary",
        type=size,
        default=8000,
        metavar="N",
        help="tokens, 256: one a byte (default: %(default)s)",
    )
    add("--megabytes", type=above_zero, default=50, metavar="N", help="text to read (default: %(default)s)")
    add("--text-column", default=COLUMN, metavar="NAME", help="of JSON and tables (default: %(default)s)")
    add("--overwrite", action="store_true", help="replace an existing tokenizer.json")
    args = parser.parse_args(argv)
    path, column = args.output / "tokenizer.json", args.text_column
    check_absent(path, args.overwrite)
    left_out = Counter()
    texts = paragraphs(layouts_of(args.text), args.megabytes, column, left_out)
    tokenizer = train_tokenizer(texts, args.vocabulary)
    args.output.mkdir(parents=True, exist_ok=True)
    write_lines(path, [tokenizer.to_str(pretty=True)])
    size, few = tokenizer.get_vocab_size(), f" (the text has no more: {args.vocabulary:,} were asked for)"
    print(f"{path}: {size:,} tokens" + few * (size < args.vocabulary))
    for reason, times in left_out.most_common():
        print(f"  left out, {reason}: {times:,}")
