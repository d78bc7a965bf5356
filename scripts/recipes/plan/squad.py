"""Fine-tuning on SQuAD 2.0 (table 11)."""

from __future__ import annotations

import math
from pathlib import Path

from recipes.checkpoints import (
    Pretrained,
    check_dictionary,
    check_not_finetuned,
    read_checkpoint,
)
from recipes.command_line import RecipeError, positive
from recipes.dictionaries import read_symbols
from recipes.files import read_json
from recipes.flags import Flags, check_recipe
from recipes.folders import CONFIGS
from recipes.plan import finetuning
from recipes.plan.batches import TOKENS_PER_GPU, split_sentences
from recipes.plan.plan import Plan, override

FILES = ("dict.txt", "train.npz", "train.json", "valid.npz", "valid.json")
RESULT = "scores.json"
WINDOW = ("--window-tokens", "--doc-stride", "--max-question-tokens", "--max-answer-tokens")
OTHER_DICTIONARY = (
    "prepare the data with scripts/prepare_squad.py --dictionary, the dict.txt of its pre-training"
)


def plan(program: str, words: list[str]) -> Plan:
    """The plan of one fine-tuning.

    Raises:
        RecipeError: for what cannot be trained.
    """
    request = finetuning.read_request(parser(program), words)
    args, user = request.args, request.user
    if "--update-freq" in user:
        raise RecipeError(
            "--update-freq is worked out from --batch-size, --gpus and --tokens-per-gpu; see --help"
        )
    for name in FILES:
        if not (args.data / name).is_file():
            raise RecipeError(f"{args.data / name} does not exist: DATA is a folder made by prepare_squad.py")
    pretrained, dictionary = read_checkpoint(args.checkpoint), args.data / "dict.txt"
    check_not_finetuned(pretrained)
    check_dictionary(pretrained, read_symbols(dictionary), dictionary, OTHER_DICTIONARY)
    recipe = Flags.read(CONFIGS / "finetune" / "squad2.flags")
    windows = window_flags(recipe.take(*WINDOW), user.take(*WINDOW), pretrained)
    model = Flags.of(pretrained.flags)
    window = windows.whole("--window-tokens")
    if pretrained.expands and window > pretrained.max_positions:
        raise RecipeError(
            f"--window-tokens {window} is more than the checkpoint's {pretrained.max_positions} positions: "
            f"give {pretrained.max_positions} or less"
        )
    model.set("--max-positions", finetuning.positions(pretrained, window))
    groups = override({"windows": windows, "model": model, "recipe": recipe}, user)
    recipe, devices = groups["recipe"], request.devices
    check_recipe(recipe)
    update = recipe.whole("--batch-size")
    recipe.take("--batch-size")
    batch = groups["batch"] = split_sentences(update, window, devices.workers, args.tokens_per_gpu)
    share, steps = batch.whole("--batch-size"), batch.whole("--update-freq")
    count = labelled_windows(args.data, groups["windows"])
    chosen = {name: recipe.value(f"--{name}") for name in ("lr", "max-epoch", "warmup-ratio")}
    batches = math.ceil(math.ceil(count / share) / devices.workers)  # of a worker in an epoch
    recipe |= finetuning.schedule(recipe, math.ceil(batches / steps))
    if devices.workers > 1:  # the LM head and the transitions are not computed
        devices.flags.set("--find-unused-parameters")
    asked = {"task": "squad2", "point": {**chosen, "batch-size": str(update)}}
    read, start = {"data": [args.data / name for name in FILES]}, str(args.checkpoint.resolve())
    found = finetuning.plan_of(request, args.data.resolve(), groups, asked, read, start)
    finetuning.check_finished(found, RESULT, _said(args.save / RESULT))
    return found


def parser(program: str):
    result = finetuning.finetuning_parser(
        program,
        "",
        what="Fine-tunes a pre-trained model on SQuAD 2.0 and scores its answers (EM, F1).",
        details="",
        maker="prepare_squad.py, with train and valid",
        configs="finetune/squad2.flags",
        batch="split over the GPUs and over as many steps as --tokens-per-gpu requires",
    )
    result.epilog = (
        "Windows: --window-tokens N (default: 512, or the length of the pre-training if shorter), "
        "--doc-stride N (default: a quarter of the window). SAVE gets checkpoint_best.pt (by F1), "
        "predictions.json, nbest_predictions.json, null_odds.json, best_answers.json and scores.json."
    )
    result.add_argument(
        "--tokens-per-gpu",
        type=positive,
        default=TOKENS_PER_GPU,
        metavar="N",
        help="tokens of a step on each GPU (default: %(default)s)",
    )
    return result


def window_flags(recipe: Flags, user: Flags, pretrained: Pretrained) -> Flags:
    """The windows: those asked for, else the recipe's, cut to the length of the pre-training.

    Raises:
        RecipeError: if a stride is given without a window, or a number makes no sense.
    """
    if "--doc-stride" in user and "--window-tokens" not in user:
        raise RecipeError("--doc-stride is given together with --window-tokens")
    window, stride = recipe.whole("--window-tokens"), recipe.whole("--doc-stride")
    flags = Flags(recipe | user)
    if "--window-tokens" in user:
        if "--doc-stride" not in user:
            flags.set("--doc-stride", (user.whole("--window-tokens") + 3) // 4)
    elif (trained := pretrained.tokens_per_sample or window) < window:
        flags.set("--window-tokens", trained)
        flags.set("--doc-stride", max(1, stride * trained // window))
    for name in WINDOW:
        flags.whole(name)
    return flags


def labelled_windows(data: Path, flags: Flags) -> int:
    """Windows of the training set that are trained on."""
    from fs_plugins.data import squad_tokens
    from fs_plugins.data.squad_windows import NO_LABEL, WindowSizes, make_windows

    windows = make_windows(squad_tokens.load(str(data), "train"), WindowSizes(*map(flags.whole, WINDOW)))
    return int((windows.labels[:, 0] != NO_LABEL).sum())


def _said(path: Path) -> str:
    scores = read_json(path)
    return f"EM {scores['exact']:.2f}, F1 {scores['f1']:.2f}" if scores else ""
