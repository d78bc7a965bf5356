"""Prepares text for pretrain_text.sh: cleans, tokenises by a BPE, splits and binarises it for fairseq.

    python scripts/prepare_text.py data-bin/text --train wiki/ books/ --layout books --workers 16 \\
        --bpe encoder.json vocab.bpe --dictionary dict.txt

Reads, plain or packed (.gz, .bz2, .xz): one paragraph per line with an empty line between documents; with
--layout books, a document per file; JSON, an object per line, as WikiExtractor writes it; and folders of
these. What cannot be read is listed in rejected.tsv. The result does not depend on --workers. See
docs/data.md.
"""

import os
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import tokenizers
from lib.command_line import argument_parser, counted, positive, script
from lib.data.binarise import add_corpus_arguments, binarise, files_given, show_result
from lib.data.bpe import TextEncoder, copy_bpe, dictionary_of
from lib.data.documents import COLUMN, PARAGRAPHS, PLAIN, documents_of, layouts_of
from lib.data.text import encode_document
from lib.files import claim, sha256

from fs_plugins.data.text_codecs import read_bpe
from fs_plugins.data.vocabulary import copy_dictionary, dictionary_file
from fs_plugins.files import new_folder, write_text


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("output", type=Path, help="folder to write: train, valid, dict.txt, the BPE, rejected.tsv")
    add_corpus_arguments(parser, "files and folders", valid_share=0.005)
    add("--bpe", nargs="+", required=True, metavar="FILE", help="encoder.json vocab.bpe, or tokenizer.json")
    add("--dictionary", type=Path, metavar="FILE", help="dict.txt to use (default: all tokens of the BPE)")
    add("--layout", choices=PLAIN, default=PARAGRAPHS, help="of plain text (default: %(default)s)")
    add(
        "--text-column", default=COLUMN, metavar="NAME", help="key of the text in JSON (default: %(default)s)"
    )
    add("--max-tokens", type=positive, metavar="N", help="split longer paragraphs: see docs/data.md")
    add("--allow-unknown", action="store_true", help="replace tokens missing from the dictionary by <unk>")
    args = parser.parse_args(argv)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a worker is a process
    train, valid = (layouts_of(paths, args.layout) for paths in (args.train, args.valid))
    layouts, inputs = train | valid, files_given(train=train, valid=valid)
    bpe = read_bpe(*args.bpe)
    inputs["--bpe"] = sha256(*bpe.files)
    settings = {"layout": args.layout, "text_column": args.text_column, "max_tokens": args.max_tokens}
    settings["tokenizers"] = tokenizers.__version__
    with new_folder(args.output) as folder:
        if args.dictionary:
            inputs["--dictionary"] = sha256(dictionary_file(args.dictionary))
            copy_dictionary(args.dictionary, folder / "dict.txt")
        else:
            write_text(folder / "dict.txt", dictionary_of(bpe))
        claim(folder, settings, inputs, sys.argv)
        encoder = TextEncoder(bpe, args.dictionary or folder / "dict.txt", args.allow_unknown)
        about = {"layouts": layouts, "max_tokens": args.max_tokens, "column": args.text_column}
        encode, read = (
            partial(encode_document, encoder=encoder, **about),
            partial(documents_of, layouts=layouts),
        )
        share = {"corpus": "text", "valid_share": args.valid_share, "workers": args.workers}
        result = binarise(folder, [*train], [*valid], read, encode, **share)
        copy_bpe(bpe, folder)
    for layout, files in Counter(layouts.values()).items():
        print(f"{counted(files, 'file')} as {layout}")
    show_result(result, args.output, "sentence")
    print(f"{counted(result['documents'], 'document')}, {counted(result['paragraphs'], 'paragraph')}")
    print(f"tokens that became <unk>: {result['unknown tokens']:,}")
