"""Prepares SQuAD for fine-tuning with --task squad2, with the BPE and the dictionary of a pre-training.

    python scripts/prepare_squad.py squad-bin --data data-bin/text \\
        --train train-v2.0.json --valid dev-v2.0.json

Reads SQuAD's JSON, version 1.1 or 2.0, plain or .gz, and the Parquet of the Hugging Face hub
(rajpurkar/squad_v2: its files, or their folder). Writes squad-bin/{train,valid}.npz and the dictionary. Text
is tokenised once, here, with the offsets of every token; windows are made when the task loads, as their size
depends on the model. See docs/finetune.md.
"""

from pathlib import Path

from lib.command_line import UserError, argument_parser, script
from lib.data.bpe import TextEncoder, add_encoder_arguments, copy_bpe, encoder_of
from lib.data.squad import read_squad
from lib.files import atomic, check_absent

from fs_plugins.data.squad import Squad, TokenizedSquad, load_split, save_split
from fs_plugins.data.vocabulary import Vocabulary, copy_dictionary


def tokenise(squad: Squad, encoder: TextEncoder, settings: dict) -> TokenizedSquad:
    """Returns the split in ids of the dictionary. Raises UserError for a token missing from it, naming the
    question or context."""
    texts = [question.text.strip() for question in squad.questions]
    places = [f"the context {context[:40]!r}" for context in squad.contexts]
    contexts = encoder.encode_with_offsets(squad.contexts, places)
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
    add("output", type=Path, help="folder to write into")
    add_encoder_arguments(parser)
    for split in ("train", "valid"):
        add(f"--{split}", nargs="+", type=Path, metavar="FILE", help="SQuAD JSON, Parquet, or a folder of it")
    other = "another split; its questions may lack answers, to be predicted only"
    add("--split", nargs="+", action="append", default=[], metavar=("NAME", "FILE"), help=other)
    add("--overwrite", action="store_true", help="replace existing splits")
    args = parser.parse_args(argv)
    splits = {name: getattr(args, name) for name in ("train", "valid") if getattr(args, name)}
    for name, *files in args.split:
        if name in splits:
            raise UserError(f"--split {name} is given twice")
        splits[name] = list(map(Path, files))
    if not splits:
        parser.error("give --train, --valid or --split, and SQuAD files")
    for name in splits:
        check_absent(args.output / f"{name}.npz", args.overwrite)
    encoder = encoder_of(args)
    read = {name: read_squad(files, name) for name, files in splits.items()}
    args.output.mkdir(parents=True, exist_ok=True)
    source, target = encoder.dictionary_path, args.output / "dict.txt"
    if target.exists():  # other splits depend on it
        Vocabulary.read(source).check(Vocabulary.read(target), "choose another OUTPUT, or remove this one")
    else:
        copy_dictionary(source, target)
    copy_bpe(encoder.bpe, args.output)
    squads = {name: squad for name, (squad, _) in read.items()}
    for name in {path.stem for path in args.output.glob("*.npz")} - squads.keys():  # of earlier calls
        squads[name] = load_split(args.output, name).squad
    settings = {"dictionary": Vocabulary.read(target).identity, "bpe": list(map(str, encoder.bpe.files))}
    for name, (squad, unlabelled) in read.items():
        split = tokenise(squad, encoder, {**settings, "unlabelled": len(unlabelled)})
        with atomic(args.output / f"{name}.npz", "wb") as file:
            save_split(split, file)
        unanswerable = sum(not question.answers for question in squad.questions)
        print(
            f"  {name}: {len(squad.questions):,} questions ({unanswerable:,} without an answer) on "
            f"{len(squad.contexts):,} contexts of {sum(map(len, split.context_tokens)):,} tokens"
        )
        for ids, what in (
            (squad.not_in_context, "not in its context"),
            (squad.moved, "not at its answer_start; its nearest occurrence is used"),
        ):
            if ids:
                print(f"  {name}: {len(ids):,} questions have an answer {what}: {', '.join(ids[:5])}")
        if unlabelled:
            print(f"  {name}: {len(unlabelled):,} questions have no answers: it can be predicted, not scored")
    asked = {
        name: {(squad.contexts[question.context], question.text) for question in squad.questions}
        for name, squad in squads.items()
    }
    trained = asked.pop("train", set())
    for name, questions in asked.items():
        if known := len(questions & trained):
            print(f"  {name}: {known:,} questions are in train too, so its scores are too optimistic")
    if encoder.unknown:
        print(f"  {encoder.unknown:,} tokens missing from the dictionary became <unk>")
