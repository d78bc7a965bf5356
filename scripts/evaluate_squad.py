#!/usr/bin/env python
"""Exact match and F1 of predictions on SQuAD, by the official rules, under the official names.

    python scripts/evaluate_squad.py predictions.json dev-v2.0.json
    python scripts/evaluate_squad.py best_answers.json dev-v2.0.json -n null_odds.json -t 0

The two files may come in either order. With --na-prob-file (-n), a question is taken as unanswerable where
its number is above --na-prob-thresh (-t), and the best threshold is reported too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lib.command_line import UserError, argument_parser, run_main
from lib.files import write_json

from fs_plugins.data.squad import gold_answers, read_squad
from fs_plugins.data.squad_metrics import evaluate


def read_table(path: Path, kind: type | tuple, what: str) -> dict:
    """Question id -> value, of a JSON file.

    Raises:
        UserError: if it does not exist, or is something else.
    """
    try:
        table = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}") from error
    if not isinstance(table, dict):
        raise UserError(f"{path} is not a table of question ids and {what}")
    wrong = [name for name, value in table.items() if not isinstance(value, kind) or value != value]  # NaN
    if wrong:
        raise UserError(f"{path}: question {wrong[0]} has {table[wrong[0]]!r:.40} for {what}")
    return table


def is_gold(path: Path) -> bool:
    """Whether it is a SQuAD file: compressed, or with "data" at the top."""
    if not path.is_file() or path.suffix == ".gz":
        return path.suffix == ".gz"
    try:
        value = json.loads(path.read_bytes())
    except ValueError:
        return False
    return isinstance(value, dict) and isinstance(value.get("data"), list)


def run(argv: list[str] | None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("predictions", type=Path, help='question id -> answer, "" for none')
    add("gold", type=Path, help="SQuAD JSON, plain or .gz")
    add("--out-file", "-o", type=Path, help="write the measures there too")
    add("--na-prob-file", "-n", type=Path, help="question id -> how likely there is no answer")
    add("--na-prob-thresh", "-t", type=float, help="no answer above it (default: 1.0)")
    args = parser.parse_args(argv)
    threshold = 1.0 if args.na_prob_thresh is None else args.na_prob_thresh
    if threshold != threshold or (args.na_prob_thresh is not None and args.na_prob_file is None):
        raise UserError(f"--na-prob-thresh {threshold}: give a number, and --na-prob-file")
    predictions, gold = args.predictions, args.gold
    if is_gold(predictions) and not is_gold(gold):
        predictions, gold = gold, predictions
    answers = read_table(predictions, str, "answers")
    odds = None if args.na_prob_file is None else read_table(args.na_prob_file, (int, float), "numbers")
    golds = gold_answers(read_squad([gold]))
    strangers = [name for name in answers if name not in golds]
    if strangers:
        print(f"warning: {len(strangers)} predictions for questions that {gold} lacks", file=sys.stderr)
    result = evaluate(answers, golds, odds, threshold)
    if args.out_file is not None:
        write_json(args.out_file, result)
    print(json.dumps(result, indent=2))


def main(argv: list[str] | None = None) -> int:
    return run_main(lambda: run(argv))


if __name__ == "__main__":
    sys.exit(main())
