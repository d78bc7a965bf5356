"""Entropy of a model's predictions for masked tokens, in bits (appendices E and Q.1, figures 5 and 12).

    python scripts/analyse_entropy.py checkpoints/exlm/checkpoint_best.pt --max-sentences 500

of a vanilla MLM over its masked tokens; of a Repeated MLM over tokens whose k copies are all masked; of an
ExLM over the k nodes of each mask, and weighted by the posterior probability that a node emits the token.
Tokens are masked by <mask> only, whatever the training did; <s> and </s> are left out.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from recipes.command_line import argument_parser, run_main


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", type=Path, help="of p_roberta*, mlm_*, p_roberta_ext_denselink* or exlm_*")
    add("--data", type=Path, metavar="DIR", help="folder of dict.txt and the split (default: the training's)")
    add("--split", default="valid", help="(default: %(default)s)")
    add("--mask-prob", type=float, metavar="P", help="share of masked tokens (default: the training's)")
    add("--max-sentences", type=int, metavar="N", help="a random choice of so many (default: all)")
    add("--batch-size", type=int, default=16, metavar="N", help="sentences at a time (default: %(default)s)")
    add("--seed", type=int, default=1, help="of the masks and the choice of sentences (default: %(default)s)")
    add("--output", type=Path, metavar="FILE", help="write the figures there, as JSON")
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")
    return parser.parse_args(argv)


NAMES = {
    "mlm": "MLM",
    "repeated_mlm": "Repeated MLM",
    "exlm": "ExLM",
}


def describe(report) -> str:
    """The text that the terminal shows."""
    k = "" if report.kind == "mlm" else f", k = {report.k}"
    lines = [
        f"{NAMES[report.kind]} ({report.arch}{k}), p = {report.mask_prob:g}, split {report.split!r}, "
        f"seed {report.seed}; <s> and </s> left out"
    ]
    plain = {
        "mlm": "entropy of masked tokens",
        "repeated_mlm": "entropy of fully masked tokens",
        "exlm": "entropy, mean over the k nodes",
    }[report.kind]
    rows = [(plain, report.entropy), ("entropy, weighted by posterior", report.entropy_posterior)]
    for name, mean in rows:
        if mean is not None:
            lines.append(
                f"  {name:<32} {mean.mean:8.4f} bits  +- {mean.standard_error:.4f}   "
                f"({mean.tokens:,} tokens in {mean.sentences:,} sentences)"
            )
    if report.entropy is None:
        lines.append("  no such token: all masked tokens have a visible copy, or nothing was masked")
    if report.kind == "exlm" and report.entropy_posterior is None:
        lines.append("  no posterior: this model was trained without transitions")
    if report.own_share is not None:
        lines.append(f"  {'posterior on the own k nodes':<32} {100 * report.own_share.mean:8.2f} %")
    if report.nonfinite:
        lines.append(f"  NOTE: {report.nonfinite} sentences have no finite likelihood, and no posterior")
    lines.append(f"  {'uniform over the vocabulary':<32} {report.uniform:8.4f} bits")
    return "\n".join(lines)


def run(args: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.WARNING)  # before fairseq sets its own
    from fs_plugins.analysis import load_checkpoint, measure_entropy
    from fs_plugins.analysis.command_line import check_output, write_json

    check_output(args.output)
    report = measure_entropy(
        load_checkpoint(args.checkpoint, args.data, args.device),
        split=args.split,
        mask_prob=args.mask_prob,
        max_sentences=args.max_sentences,
        batch_size=args.batch_size,
        seed=args.seed,
        progress=True,
    )
    print(describe(report))
    if args.output is not None:
        write_json(report.to_dict(), args.output)


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    return run_main(lambda: run(args), "\ninterrupted")


if __name__ == "__main__":
    sys.exit(main())
