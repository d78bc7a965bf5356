#!/usr/bin/env python
"""The flags of a fine-tuning run on SQuAD that follow from its checkpoint and its data, a word a line.

    python scripts/squad/plan.py checkpoint_best.pt squad-bin [flags of configs/finetune/squad2.flags]

Printed are the flags given, less those that are this script's own, and after them: the model's architecture
as the checkpoint has it; windows no longer than the pre-training's; the batch as windows and steps of a GPU;
the updates in all and of the warm-up.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import fs_plugins  # noqa: F401  (models, tasks and what fairseq needs on current Python)
from fs_plugins.data import squad_tokens
from fs_plugins.data.squad_windows import NO_LABEL, WindowSizes, make_windows
from recipes.checkpoints import (
    Pretrained,
    check_dictionary,
    check_not_finetuned,
    read_checkpoint,
    read_symbols,
)

OTHER_DICTIONARY = "make the data anew with scripts/prepare_squad.py --dict, the dict.txt of its pre-training"


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    add = result.add_argument
    add("checkpoint")
    add("data")
    add("--batch-size", type=int, required=True, help="windows of an update")
    add("--max-epoch", type=int, required=True)
    add("--warmup-ratio", type=float, required=True, help="share of the updates")
    add("--window-tokens", type=int, required=True, help="at most; less if the pre-training had less")
    add(
        "--doc-stride",
        type=int,
        required=True,
        help="for these windows; a shorter window has one in proportion",
    )
    add("--max-question-tokens", type=int, required=True)
    add("--max-answer-tokens", type=int, required=True)
    add("--workers", type=int, default=1, help="GPUs, or 1")
    add("--tokens-per-gpu", type=int, default=32768, help="tokens of a step on each GPU")
    add("--exact-window", action="store_true", help="take --window-tokens and --doc-stride as they are")
    return result


def window_sizes(args, pretrained: Pretrained) -> WindowSizes:
    """Windows as asked for, cut to the length of the pre-training: the model knows no farther positions."""
    window, stride = args.window_tokens, args.doc_stride
    trained = pretrained.tokens_per_sample or window
    if not args.exact_window and trained < window:
        stride = max(1, stride * trained // window)
        window = trained
    return WindowSizes(window, stride, args.max_question_tokens, args.max_answer_tokens)


def plan(args) -> list[str]:
    """The words of the flags.

    Raises:
        FileNotFoundError: if checkpoint or data are not there.
        CheckpointError: if the checkpoint cannot be used, or does not belong to the data.
        ValueError: if a number makes no sense.
    """
    for name in ("batch_size", "max_epoch", "workers", "tokens_per_gpu"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}")
    if not 0 <= args.warmup_ratio <= 1:
        raise ValueError(f"--warmup-ratio {args.warmup_ratio}: give a share of the updates, such as 0.06")
    if args.batch_size % args.workers:
        raise ValueError(f"a batch of {args.batch_size} windows cannot be split over {args.workers} GPUs")
    if not (Path(args.data) / "dict.txt").is_file():
        raise FileNotFoundError(f"there is no {args.data}/dict.txt: scripts/prepare_squad.py makes the data")
    pretrained, dictionary = read_checkpoint(Path(args.checkpoint)), Path(args.data) / "dict.txt"
    check_not_finetuned(pretrained)
    check_dictionary(pretrained, read_symbols(dictionary), dictionary, OTHER_DICTIONARY)
    sizes = window_sizes(args, pretrained)
    if pretrained.expands and sizes.window > pretrained.max_positions:
        raise ValueError(
            f"windows of {sizes.window} tokens are longer than the checkpoint's {pretrained.max_positions} "
            "positions: give a shorter --window"
        )
    windows = make_windows(squad_tokens.load(args.data, "train"), sizes)
    count = int((windows.labels[:, 0] != NO_LABEL).sum())

    # an update of `batch_size` windows = workers x steps x windows of a step
    share, steps = args.batch_size // args.workers, 1
    while share % 2 == 0 and share * sizes.window > args.tokens_per_gpu:
        share, steps = share // 2, steps * 2
    updates = math.ceil(math.ceil(math.ceil(count / share) / args.workers) / steps) * args.max_epoch
    positions = pretrained.max_positions
    if not pretrained.expands:  # rotary positions have no weights, so that an MLM may have more of them
        positions = max(positions, sizes.window)
    flags = {
        "--max-positions": positions,
        "--window-tokens": sizes.window,
        "--doc-stride": sizes.stride,
        "--max-question-tokens": sizes.question,
        "--max-answer-tokens": sizes.answer,
        "--batch-size": share,
        "--required-batch-size-multiple": 1,
        "--update-freq": steps,
        "--max-epoch": args.max_epoch,
        "--warmup-updates": round(args.warmup_ratio * updates),
        "--total-num-update": updates,
    }
    return [*pretrained.flags, *(str(word) for pair in flags.items() for word in pair)]


def main() -> int:
    args, others = parser().parse_known_args()
    try:
        words = plan(args)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join([*others, *words]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
