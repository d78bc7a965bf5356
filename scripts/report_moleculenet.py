"""Table 1 of the paper from fine-tuned models: ROC-AUC on the test sets, mean and deviation over seeds.

    python scripts/report_moleculenet.py ExLM=runs/exlm SMILES-BERT=runs/mlm --output table1.md

A folder is searched for metrics.json, as scripts/finetune_moleculenet.sh and scripts/baseline_moleculenet.py
write them; which set and seed each is of, it says itself. Regressions go into a table of their own (RMSE).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

PAPER = Path(__file__).resolve().parent / "recipes" / "moleculenet" / "paper_numbers.json"


class ReportError(Exception):
    """Results that cannot be reported; the message says why."""


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("models", nargs="+", metavar="NAME=FOLDER", help="a row of the table and where its results are")
    add("--output", type=Path, metavar="FILE", help="write the Markdown there (default: show it)")
    add("--seeds", type=int, default=3, metavar="N", help="seeds that a result should have (default: 3)")
    return parser.parse_args(argv)


def read_results(name: str, folder: Path) -> list[dict]:
    """The metrics.json files under a folder.

    Raises:
        ReportError: if there are none, one is damaged, or a set has two results of one seed.
    """
    if not folder.is_dir():
        raise ReportError(f"{name}: there is no folder {folder}")
    results, seen = [], {}
    for path in sorted(folder.rglob("metrics.json")):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
            key = (result["dataset"], result["seed"])
            result["test"].get("auc"), result["valid"].get("auc"), result["kind"]  # noqa: B018
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ReportError(f"{path} is no result of a fine-tuning: {error!r}") from error
        if key in seen:
            raise ReportError(f"{name}: seed {key[1]} of {key[0]} is in {seen[key]} and in {path}")
        seen[key] = path
        results.append(result)
    if not results:
        raise ReportError(f"{name}: there is no metrics.json under {folder}")
    return results


def cell(values: list[float], scale: float, digits: int) -> str:
    """Mean, and the sample's standard deviation where there is more than one seed."""
    if not values:
        return "-"
    mean = f"{scale * statistics.mean(values):.{digits}f}"
    return f"{mean} ± {scale * statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def row(name: str, cells: list[str]) -> str:
    return f"| {name} | " + " | ".join(cells) + " |"


def head(columns: list[str]) -> list[str]:
    return [row("", columns), "|---" * (len(columns) + 1) + "|"]


def classification_table(models: dict[str, list[dict]], wanted_seeds: int) -> list[str]:
    from recipes.moleculenet.datasets import KNOWN

    paper = json.loads(PAPER.read_text(encoding="utf-8"))["table1"]
    remarks, lines = [], []
    present = {r["dataset"] for results in models.values() for r in results}
    columns = [*paper["columns"], *sorted(present - set(paper["columns"]))]
    lines += head([*(KNOWN[c].title if c in KNOWN else c for c in columns), "Mean"])
    for name, results in models.items():
        scores: dict[str, list[float]] = defaultdict(list)
        for result in results:
            auc = result["test"].get("auc")
            if auc is None:
                remarks.append(f"{name}, {result['dataset']}, seed {result['seed']}: no AUC on the test set")
                continue
            scores[result["dataset"]].append(auc)
        for dataset, values in scores.items():
            if len(values) != wanted_seeds:
                remarks.append(f"{name}, {dataset}: {len(values)} of {wanted_seeds} seeds")
        cells = [cell(scores[column], 100, 1) for column in columns]
        whole = all(scores[column] for column in paper["columns"])
        averages = [statistics.mean(scores[column]) for column in paper["columns"]] if whole else []
        lines.append(row(name, [*cells, cell([statistics.mean(averages)], 100, 1) if whole else "-"]))
    remarks += comparability(models, paper["columns"])
    lines.append(row("*the paper:*", [""] * (len(columns) + 1)))
    for name, numbers in paper["rows"].items():
        values = dict(zip(paper["columns"], numbers, strict=True))
        shown = ["-" if values.get(c) is None else f"{values[c]:.1f}" for c in columns]
        mean = paper["mean"].get(name)
        lines.append(row(name, [*shown, "-" if mean is None else f"{mean:.1f}"]))
    return ["ROC-AUC in %, test set, mean ± standard deviation over seeds.", "", *lines, *notes(remarks)]


def regression_table(models: dict[str, list[dict]]) -> list[str]:
    columns = sorted({r["dataset"] for results in models.values() for r in results})
    lines = head(columns)
    for name, results in models.items():
        scores: dict[str, list[float]] = defaultdict(list)
        for result in results:
            if result["test"].get("rmse") is not None:
                scores[result["dataset"]].append(result["test"]["rmse"])
        lines.append(row(name, [cell(scores[column], 1, 3) for column in columns]))
    return ["", "RMSE in the units of the labels, test set.", "", *lines, *notes(comparability(models))]


def comparability(models: dict[str, list[dict]], paper: Sequence[str] = ()) -> list[str]:
    """What to say where numbers of one column are not of the same molecules.

    Args:
        paper: the sets that stand beside the paper's numbers, which are of scaffold splits (or of Uni-Mol's
            files, which are split already).
    """
    remarks, tests = [], defaultdict(dict)
    whole = all("rows_sha256" in r["test"] for results in models.values() for r in results)
    for name, results in models.items():
        for result in results:
            split = result.get("split") or {}
            kind, seed = split.get("kind"), split.get("seed")
            shown = f"{kind} split" + ("" if seed is None else f" {seed}")
            rows = result["test"]["rows_sha256"] if whole else (shown, result["test"].get("molecules"))
            tests[result["dataset"]].setdefault(rows, []).append(f"{name} (seed {result['seed']}, {shown})")
            remark = f"{name}, {result['dataset']}: a random split, the paper's are by scaffold"
            if kind == "random" and result["dataset"] in paper and remark not in remarks:
                remarks.append(remark)
    for dataset, groups in tests.items():
        if len(groups) > 1:
            one, other = [members[0] for members in groups.values()][:2]
            remarks.append(f"{dataset}: not all results are of the same test molecules: {one}, but {other}")
    return remarks


def notes(remarks: list[str]) -> list[str]:
    return ["", *(f"- {remark}" for remark in remarks)] if remarks else []


def report(models: dict[str, list[dict]], wanted_seeds: int) -> str:
    kinds = {
        kind: {
            name: [r for r in results if r["kind"] == kind]
            for name, results in models.items()
            if any(r["kind"] == kind for r in results)
        }
        for kind in ("classification", "regression")
    }
    lines = []
    if kinds["classification"]:
        lines += classification_table(kinds["classification"], wanted_seeds)
    if kinds["regression"]:
        lines += regression_table(kinds["regression"])
    return "\n".join(lines).strip() + "\n"


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    try:
        models = {}
        for given in args.models:
            name, equals, folder = given.partition("=")
            if not equals or not name or name in models:
                raise ReportError(f"{given!r}: give NAME=FOLDER, each name once")
            models[name] = read_results(name, Path(folder))
        text = report(models, args.seeds)
        if args.output is None:
            print(text, end="")
        elif args.output.is_dir():
            raise ReportError(f"--output {args.output} is a folder: name a file")
        else:
            args.output.parent.mkdir(parents=True, exist_ok=True)
            partial = args.output.with_name(args.output.name + ".partial")
            partial.write_text(text, encoding="utf-8")
            os.replace(partial, args.output)
    except (ReportError, OSError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
