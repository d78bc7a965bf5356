"""Prepares SQuAD for fine-tuning with --task squad2, with the BPE and the dictionary of a pre-training.

    python scripts/prepare_squad.py squad-bin --data data-bin/text \\
        --train train-v2.0.json --valid dev-v2.0.json

Reads SQuAD's JSON, version 1.1 or 2.0, plain or .gz. Writes squad-bin/{train,valid}.npz and the dictionary.
Text is tokenised once, here, with the offsets of every token; windows are made when the task loads, as their
size depends on the model. See docs/finetune.md.
"""

from pathlib import Path

from lib.command_line import SEVERAL, UserError, argument_parser, counted, script
from lib.data.bpe import TextEncoder, add_encoder_arguments, copy_bpe, encoder_of
from lib.squad import read_squad

from fs_plugins.data.vocabulary import Vocabulary, copy_dictionary
from fs_plugins.files import atomic, new_folder
from fs_plugins.finetuning.squad.data import Squad, TokenizedSquad, save_split


def tokenise(squad: Squad, encoder: TextEncoder, settings: dict) -> TokenizedSquad:
    """Returns the split in ids of the dictionary. Raises UserError for a token missing from it, naming the
    question or context."""
    texts = [question.text.strip() for question in squad.questions]
    sources = [f"the context {context[:40]!r}" for context in squad.contexts]
    contexts = encoder.encode_with_offsets(squad.contexts, sources)
    questions = encoder.encode_with_offsets(texts, [f"question {q.id}" for q in squad.questions])
    return TokenizedSquad(
        squad,
        [tokens.astype("int32") for tokens, _ in contexts],
        [offsets for _, offsets in contexts],
        [tokens.astype("int32") for tokens, _ in questions],
        settings,
    )


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("output", type=Path, help="folder to write")
    add_encoder_arguments(parser)
    for split in ("train", "valid"):
        add(f"--{split}", **SEVERAL, type=Path, metavar="FILE", help="SQuAD JSON")
    other = "another split; its questions may lack answers, to be predicted only"
    add("--split", nargs="+", action="append", default=[], metavar=("NAME", "FILE"), help=other)
    add("--overwrite", action="store_true", help="replace an existing OUTPUT")
    args = parser.parse_args(argv)
    splits = {name: getattr(args, name) for name in ("train", "valid") if getattr(args, name)}
    for name, *files in args.split:
        if name in splits:
            raise UserError(f"--split {name} is given twice")
        splits[name] = list(map(Path, files))
    if not splits:
        parser.error("give --train, --valid or --split, and SQuAD files")
    encoder = encoder_of(args)
    read = {name: read_squad(files, name) for name, files in splits.items()}
    settings = {"dictionary": Vocabulary.read(encoder.dictionary_path).identity}
    settings["bpe"] = list(map(str, encoder.bpe.files))
    with new_folder(args.output, f"{[*splits][0]}.npz" if args.overwrite else None) as folder:
        copy_dictionary(encoder.dictionary_path, folder / "dict.txt")
        copy_bpe(encoder.bpe, folder)
        for name, (squad, unlabelled) in read.items():
            split = tokenise(squad, encoder, {**settings, "unlabelled": len(unlabelled)})
            with atomic(folder / f"{name}.npz", "wb") as file:
                save_split(split, file)
            questions = counted(len(squad.questions), "question")
            contexts = counted(len(squad.contexts), "context")
            unanswerable = sum(not question.answers for question in squad.questions)
            tokens = counted(sum(map(len, split.context_tokens)), "token")
            print(f"  {name}: {questions} ({unanswerable:,} without an answer) on {contexts} of {tokens}")
            for ids, what in (
                (unlabelled, "without answers that may have some: the split can be predicted, not scored"),
                (squad.misplaced, "with an answer not at its answer_start, which is not trained on"),
            ):
                if ids:
                    print(f"  {name}: {counted(len(ids), 'question')} {what}: {', '.join(ids[:5])}")
    if encoder.unknown:
        print(f"  {counted(encoder.unknown, 'token')} missing from the dictionary became <unk>")
