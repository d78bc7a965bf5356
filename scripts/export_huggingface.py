"""A checkpoint as a folder that transformers loads, with neither fairseq nor this package.

    python scripts/export_huggingface.py checkpoints/mlm/checkpoint_best.pt exported/mlm

A pre-norm MLM is exported as transformers' own ESM; an ExLM with its code, for trust_remote_code=True.
docs/huggingface.md has examples.
"""

from pathlib import Path

from lib.command_line import argument_parser, script


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", type=Path, help="pre-trained, or fine-tuned on GLUE or molecules")
    add("folder", type=Path, help="the folder to make")
    add("--data", type=Path, metavar="DIR", help="folder of dict.txt (default: the one of the training)")
    written = (
        "how the corpus was written: encoder.json and vocab.bpe (GPT-2 BPE), a tokenizer.json, smiles, or "
        "none for symbols between blanks (default: what lies beside the dictionary)"
    )
    add("--bpe", nargs="+", metavar="FILE", help=written)
    add("--license", dest="licence", help="of the model, for its card, such as mit (default: left open)")
    add("--notes", type=Path, metavar="FILE", help="Markdown for the end of the card, such as results")
    add("--half", action="store_true", help="store the weights as float16, in half the space")
    args = parser.parse_args(argv)
    args.notes = args.notes.read_text(encoding="utf-8") if args.notes else ""

    from fs_plugins.huggingface.export import export

    folder = export(**vars(args))
    print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
