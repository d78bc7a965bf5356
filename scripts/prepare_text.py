"""Prepares text for pretrain_text.sh: cleans, tokenises by a BPE, splits and binarises it for fairseq.

    python scripts/prepare_text.py data-bin/text --train wiki.txt.gz books/ --bpe encoder.json vocab.bpe \\
        --dictionary dict.txt --workers 16

Reads, plain or .gz: one paragraph per line with an empty line between documents; WikiExtractor's output,
<doc> or JSON; folders of books, one per file. What cannot be read is listed in rejected.tsv. The result does
not depend on --workers. See docs/data.md.
"""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path

import tokenizers
from lib.command_line import UserError, argument_parser, positive, script
from lib.corpora.binarise import add_corpus_arguments, binarise, draft_of, inputs_of, show_result
from lib.corpora.bpe import TextEncoder, dictionary_of
from lib.corpora.text import AUTO, LAYOUTS, TextBlockEncoder, documents_of, layouts_of
from lib.files import sha256

from fs_plugins.data.text_codecs import GPT2_FILES, HF_FILE, read_bpe
from fs_plugins.data.vocabulary import dictionary_file, read_dictionary


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("output", type=Path, help="folder to write: train, valid, dict.txt, the BPE, rejected.tsv")
    add_corpus_arguments(parser, "files and folders", valid_share=0.005)
    add("--bpe", nargs="+", required=True, metavar="FILE", help="encoder.json vocab.bpe, or tokenizer.json")
    add("--dictionary", type=Path, metavar="FILE", help="dict.txt to use (default: all tokens of the BPE)")
    add("--layout", choices=(AUTO, *LAYOUTS), default=AUTO, help="of all files (default: as each begins)")
    add("--max-tokens", type=positive, metavar="N", help="split longer paragraphs: see docs/data.md")
    args = parser.parse_args(argv)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a worker is a process
    if ":" in str(args.output):
        raise UserError(f"{args.output}: fairseq does not support ':' in the name of a data folder")
    train, valid = layouts_of(args.train, args.layout), layouts_of(args.valid, args.layout)
    layouts, inputs = train | valid, inputs_of({"--train": train, "--valid": valid})
    valid_share = 0.0 if valid else args.valid_share
    bpe = read_bpe(*args.bpe)
    settings = {"valid_share": valid_share, "layout": args.layout, "max_tokens": args.max_tokens}
    settings["tokenizers"], inputs["--bpe"] = tokenizers.__version__, sha256(*bpe.files)
    if given := args.dictionary and dictionary_file(args.dictionary):
        read_dictionary(given)
        inputs["--dictionary"] = sha256(given)
    with draft_of(args.output, settings, inputs) as folder:
        if given:
            shutil.copyfile(given, folder / "dict.txt")
        else:
            (folder / "dict.txt").write_text(dictionary_of(bpe), encoding="utf-8")
        encoder = TextEncoder(bpe, given or folder / "dict.txt")
        encode = TextBlockEncoder(encoder, frozenset(valid), valid_share, args.max_tokens)
        result = binarise(folder, list(layouts), partial(documents_of, layouts=layouts), encode, args.workers)
        # the BPE beside the dictionary, by the names that fine-tuning looks for
        for path, name in zip(bpe.files, (HF_FILE,) if len(bpe.files) == 1 else GPT2_FILES, strict=True):
            shutil.copyfile(path, folder / name)
    show_result(result, args.output, "sentences")
    print(
        f"{result['documents']:,} documents, {result['paragraphs']:,} paragraphs "
        f"({result['paragraphs cut']:,} split); skipped as empty: "
        f"{result['empty documents']:,} documents, {result['empty paragraphs']:,} paragraphs"
    )


if __name__ == "__main__":
    sys.exit(main())
