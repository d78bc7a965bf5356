"""Fine-tuning on SQuAD 2.0 (table 11): what scripts/finetune_squad.sh runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lib.checkpoints import Pretrained, check_dictionary, check_not_finetuned, read_checkpoint
from lib.command_line import UserError, positive, run_main
from lib.dictionaries import read_symbols
from lib.finetuning import finetuning_parser, positions, read_request, training
from lib.flags import Flags, check_recipe
from lib.folders import CONFIGS
from lib.launch import TOKENS_PER_GPU, Training, launch, split_sentences

SCRIPT = "finetune_squad.sh"
FILES = ("dict.txt", "train.npz", "valid.npz")
RESULT = "scores.json"
WINDOW = ("--window-tokens", "--doc-stride", "--max-question-tokens", "--max-answer-tokens")
OTHER_DICTIONARY = (
    "prepare the data with scripts/prepare_squad.py --dictionary, the dict.txt of its pre-training"
)


def resolve(words: list[str]) -> Training:
    """One fine-tuning.

    Raises:
        UserError: for what cannot be trained.
    """
    request = read_request(parser(), words)
    args, user = request.args, request.user
    if "--update-freq" in user:
        raise UserError(
            "--update-freq is worked out from --batch-size, --gpus and --tokens-per-gpu; see --help"
        )
    for name in FILES:
        if not (args.data / name).is_file():
            raise UserError(f"{args.data / name} does not exist: DATA is a folder made by prepare_squad.py")
    pretrained, dictionary = read_checkpoint(args.checkpoint), args.data / "dict.txt"
    check_not_finetuned(pretrained)
    check_dictionary(pretrained, read_symbols(dictionary), dictionary, OTHER_DICTIONARY)
    recipe = Flags.read(CONFIGS / "finetune" / "squad2.flags")
    windows = window_flags(recipe, user, pretrained)
    window = windows.whole("--window-tokens")
    if pretrained.expands and window > pretrained.max_positions:
        raise UserError(
            f"--window-tokens {window} is more than the checkpoint's {pretrained.max_positions} positions: "
            f"give {pretrained.max_positions} or less"
        )
    flags = Flags.of(pretrained.flags)
    flags.set("--max-positions", positions(pretrained, window))
    flags |= recipe | user | windows
    check_recipe(flags)
    if request.workers > 1:  # the LM head and the transitions are not computed
        flags.set("--find-unused-parameters")
    return training(
        request,
        "squad2",
        flags,
        split_sentences(flags.whole("--batch-size"), window, request.workers, args.tokens_per_gpu),
        labelled_windows(args.data, windows),
        args.save / RESULT,
        lambda scores: f"EM {scores['exact']:.2f}, F1 {scores['f1']:.2f}",
        data=str(args.data.resolve()),
        inputs={"data": [args.data / name for name in FILES]},
        words={"start": [str(args.checkpoint.resolve())]},
    )


def parser() -> argparse.ArgumentParser:
    result = finetuning_parser(SCRIPT)
    step = "tokens of a step on each GPU (default: %(default)s)"
    result.add_argument("--tokens-per-gpu", type=positive, default=TOKENS_PER_GPU, metavar="N", help=step)
    return result


def window_flags(recipe: Flags, user: Flags, pretrained: Pretrained) -> Flags:
    """The windows: those asked for, else the recipe's, cut to the length of the pre-training.

    Raises:
        UserError: if a stride is given without a window, or a number makes no sense.
    """
    if "--doc-stride" in user and "--window-tokens" not in user:
        raise UserError("--doc-stride is given together with --window-tokens")
    window, stride = recipe.whole("--window-tokens"), recipe.whole("--doc-stride")
    found = (recipe | user).take(*WINDOW)
    if "--window-tokens" in user:
        if "--doc-stride" not in user:
            found.set("--doc-stride", (user.whole("--window-tokens") + 3) // 4)
    elif (trained := pretrained.tokens_per_sample or window) < window:
        found.set("--window-tokens", trained)
        found.set("--doc-stride", max(1, stride * trained // window))
    for name in WINDOW:
        found.whole(name)
    return found


def labelled_windows(data: Path, flags: Flags) -> int:
    """Windows of the training set that are trained on."""
    from fs_plugins.data.squad import load_split
    from fs_plugins.data.squad_windows import NO_LABEL, WindowSizes, make_windows

    windows = make_windows(load_split(str(data), "train"), WindowSizes(*map(flags.whole, WINDOW)))
    return int((windows.labels[:, 0] != NO_LABEL).sum())


def main() -> int:
    return launch(SCRIPT, resolve, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run_main(main))
