"""Writes the report of a study's folder: each figure and table with the paper's number beside ours.

    python scripts/report_experiments.py runs/smoke

writes runs/smoke/report.md and the pictures it shows. What was not run, or has no number in the paper, is
blank.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from pathlib import Path

from recipes.study import figures
from recipes.study.folder import FolderError
from recipes.study.grids import EXPERIMENTS, FIGURE12_RATIOS, REPEATED, STATES, Run
from recipes.study.results import PAPER, Results, Value, corrupted_share
from recipes.study.steps import GLUE_TASKS

COLUMNS = (*GLUE_TASKS, "Avg")
PROBE_NOTE = (
    "No GLUE was given, so ours is the **probe**: the share of masked validation tokens (15%) that the model "
    "recovers, in percent. It is another quantity than the paper's: compare the pattern, not the numbers."
)


def text_of(value: Value | float | None, digits: int = 1) -> str:
    if value is None:
        return ""
    return value.text(digits) if isinstance(value, Value) else f"{value:.{digits}f}"


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def paper_cells(grid: dict[str, float]) -> figures.Cells:
    cells = {}
    for key, value in grid.items():
        k, p = key.split(",")
        cells[int(k), float(p)] = value
    return cells


def grid_table(paper: figures.Cells, ours: dict[tuple[int, float], Value | None], digits: int) -> str:
    """Rows (k, p): p^k, the paper's, ours."""
    rows = [
        [
            str(k),
            figures.percent(p),
            f"{100 * p**k:.2f}%",
            text_of(paper.get((k, p)), digits),
            text_of(ours.get((k, p)), digits),
        ]
        for k, ratios in REPEATED.items()
        for p in ratios
    ]
    return markdown_table(["k", "p", "p^k", "paper", "ours"], rows)


def standard_errors(percent: float, share: float, tokens: int) -> str:
    """How far a measured percentage is from a share, in standard errors of as many independent draws."""
    return f"{(percent / 100 - share) / math.sqrt(share * (1 - share) / tokens):+.1f}"


class Report:
    def __init__(self, results: Results):
        self.results = results
        self.glue = results.has_glue()
        self.folder = results.output

    def repeated(self, k: int, p: float) -> Run | None:
        return self.results.run(f"repeated-mlm-k{k}-p{p:g}")

    def grid(self, measure) -> dict[tuple[int, float], Value | None]:
        return {
            (k, p): measure(run) if (run := self.repeated(k, p)) else None
            for k, ratios in REPEATED.items()
            for p in ratios
        }

    def picture(self, name: str, panels: list[tuple[str, dict, int]]) -> str:
        plain = [
            (title, {key: v.mean if isinstance(v, Value) else v for key, v in cells.items()}, digits)
            for title, cells, digits in panels
        ]
        figures.save_grids(self.folder / f"{name}.png", plain)
        return f"![{EXPERIMENTS[name].title}]({name}.png)\n"

    def figure3(self) -> str:
        paper = paper_cells(PAPER["figure3"]["grid"])
        if self.glue:
            ours = self.grid(lambda run: self.results.glue(run, "MNLI"))
            what, note = "MNLI accuracy, %", "MNLI is the mean of the matched and mismatched sets.\n"
        else:
            ours = self.grid(self.results.probe)
            what, note = "recovery of masked tokens, %", PROBE_NOTE + "\n"
        panels = [("paper: MNLI accuracy, %", paper, 1), (f"ours: {what}", ours, 1)]
        return f"{note}\n{self.picture('figure3', panels)}\n{grid_table(paper, ours, 1)}"

    def figure4(self) -> str:
        paper = paper_cells(PAPER["figure4"]["grid"])
        measured = self.grid(self.results.corrupted)
        ours = {key: value and value[0] for key, value in measured.items()}
        rows = []
        for (k, p), found in measured.items():
            row = [str(k), figures.percent(p), f"{100 * p**k:.3f}", text_of(paper.get((k, p)), 2), *[""] * 5]
            if found:
                value, tokens = found
                row[5:8] = [value.text(3), f"{tokens:,}", standard_errors(value.mean, p**k, tokens)]
                if length := self.results.tokens_per_sample(self.repeated(k, p)):
                    expected = corrupted_share(k, p, length)
                    row[4], row[8] = f"{100 * expected:.3f}", standard_errors(value.mean, expected, tokens)
            rows.append(row)
        head = ["k", "p", "p^k, %", "paper, %", "expected, %", "measured, %", "tokens"]
        head += ["standard errors from p^k", "from expected"]
        note = (
            "Expected: fairseq masks a fixed number of a sample's positions, so all copies of a token are "
            "masked a little less often than p^k, the less so the longer the samples.\n"
        )
        panels = [("paper: corrupted semantics, %", paper, 2), ("ours: measured in training, %", ours, 2)]
        return f"{note}\n{self.picture('figure4', panels)}\n{markdown_table(head, rows)}"

    def figure5(self) -> str:
        paper = paper_cells(PAPER["figure5"]["grid"])
        ours = self.grid(self.results.entropy)
        panels = [("paper: entropy, bits", paper, 2), ("ours: entropy, bits", ours, 2)]
        return f"{self.picture('figure5', panels)}\n{grid_table(paper, ours, 2)}"

    def figure8(self) -> str:
        papers = {task: paper_cells(grid) for task, grid in PAPER["figure8"]["grids"].items()}
        panels, text = [], ""
        if not self.glue:
            ours = self.grid(self.results.probe)
            panels = [(f"paper: {task} accuracy, %", grid, 1) for task, grid in papers.items()]
            panels.append(("ours: recovery of masked tokens, %", ours, 1))
            text = "The probe has one grid, that of figure 3; the paper's four are beside it.\n"
            return f"{PROBE_NOTE}\n\n{text}\n{self.picture('figure8', panels)}"
        for task, paper in papers.items():
            ours = self.grid(lambda run, task=task: self.results.glue(run, task))
            panels += [(f"paper: {task}, %", paper, 1), (f"ours: {task}, %", ours, 1)]
            text += f"\n{task}:\n\n{grid_table(paper, ours, 1)}"
        return f"{self.picture('figure8', panels)}{text}"

    def figure9(self) -> str:
        runs = [run for k, ratios in REPEATED.items() for p in ratios if (run := self.repeated(k, p))]
        curves = {run: self.results.curves(run) for run in runs}
        figures.save_curves(self.folder / "figure9.png", curves)
        rows = []
        for run, records in curves.items():
            last = records[-1] if records else {}
            found = [
                text_of(last.get(name), digits) for name, digits in (("loss", 2), ("accuracy", 1), ("ppl", 1))
            ]
            rows.append([str(run.k), figures.percent(run.p), str(last.get("update", "")), *found])
        head = ["k", "p", "updates", "training loss, bits", "predicted, %", "perplexity"]
        note = "The paper has no numbers here. At the end of training; one seed is drawn.\n"
        return f"{note}\n![Training curves](figure9.png)\n\n{markdown_table(head, rows)}"

    def figure12(self) -> str:
        names = {"entropy": "mean over a token's states", "entropy_posterior": "weighted by the posterior"}
        panels, rows = {}, []
        mlm = {p: self.results.entropy(self.repeated(1, p)) for p in FIGURE12_RATIOS}
        exlm = {k: {p: self.results.run(f"exlm-k{k}-p{p:g}") for p in FIGURE12_RATIOS} for k in STATES}
        for name, title in names.items():
            lines = {"MLM": {p: value for p, value in mlm.items() if value}}
            for k, runs in exlm.items():
                found = {p: self.results.entropy(run, name) for p, run in runs.items()}
                lines[f"ExLM, k = {k}"] = {p: value for p, value in found.items() if value}
            panels[title] = lines
        figures.save_lines(self.folder / "figure12.png", panels, "entropy, bits")
        for p in FIGURE12_RATIOS:
            rows.append([figures.percent(p), "MLM", "", text_of(mlm[p], 2), ""])
            for k in STATES:
                found = [text_of(self.results.entropy(exlm[k][p], name), 2) for name in names]
                rows.append([figures.percent(p), f"ExLM, k = {k}", "", *found])
        head = ["p", "model", "paper", "ours, bits: mean over states", "weighted by the posterior"]
        note = "The paper's figure is a picture without numbers, and does not name its mask ratios.\n"
        return f"{note}\n![Entropy](figure12.png)\n\n{markdown_table(head, rows)}"

    def quality_table(self, name: str) -> str:
        """Rows of a table of methods; GLUE's columns paper / ours, or the paper's and the probe's."""
        rows = []
        for row in PAPER[name]["rows"]:
            run, paper = self.results.run(row["run"]), row["paper"]
            if self.glue:
                values = {c: self.results.glue(run, c) for c in COLUMNS}
                cells = [cell for c in COLUMNS for cell in (text_of(paper.get(c)), text_of(values[c]))]
            else:
                cells = [text_of(paper.get(c)) for c in COLUMNS]
                cells += [
                    text_of(self.results.probe(run), 1),
                    text_of(self.results.probe(run, name="bits"), 3),
                ]
                if name == "table4":
                    own = [self.results.probe(run, run.p, n) if run else None for n in ("accuracy", "bits")]
                    cells += [text_of(own[0], 1), text_of(own[1], 3)]
            rows.append([row["method"], *cells])
        if self.glue:
            head = ["method", *(f"{c}, {who}" for c in COLUMNS for who in ("paper", "ours"))]
            return markdown_table(head, rows)
        head = ["method", *(f"{c}, paper" for c in COLUMNS), "recovered, %, ours", "bits a token, ours"]
        if name == "table4":
            head += ["recovered at the model's own p, %, ours", "bits at its own p, ours"]
        return f"{PROBE_NOTE}\n\n{markdown_table(head, rows)}"

    def table2(self) -> str:
        return self.quality_table("table2")

    def table4(self) -> str:
        return self.quality_table("table4")

    def table13(self) -> str:
        return self.quality_table("table13")

    def table12(self) -> str:
        rows, first = [], None
        for row in PAPER["table12"]["rows"]:
            seconds = self.results.seconds(self.results.run(row["run"]))
            first = first or (row["paper"]["hours"], seconds)
            ratio = seconds.mean / first[1].mean if seconds and first[1] and first[1].mean else None
            ours = (
                Value(seconds.mean / 3600, seconds.spread and seconds.spread / 3600, 1) if seconds else None
            )
            paper = row["paper"]["hours"]
            cells = [text_of(paper), text_of(ours, 3), f"{paper / first[0]:.2f}", text_of(ratio, 2)]
            rows.append([row["method"], *cells])
        head = ["model", "hours, paper", "hours, ours", "times the MLM, paper", "times the MLM, ours"]
        return markdown_table(head, rows)

    def about(self) -> str:
        results, records = self.results, self.results.records
        commits = sorted({record["commit"] for record in records.values()})
        attempts = [a for record in records.values() for a in record["attempts"]]
        wall, cpu = (sum(a.get(f"{kind}_seconds", 0) for a in attempts) for kind in ("wall", "cpu"))
        finished = sum(results.read(run, "train") is not None for run in records)
        rows = [
            ["size", f"`{results.settings['size']}`"],
            ["data", f"`{results.settings['data']}`"],
            ["pre-training seeds", ", ".join(map(str, results.seeds))],
            ["runs trained", f"{finished} of {len(records)} begun"],
            ["commit", ", ".join(f"`{c}`" for c in commits)],
            ["time of all commands", f"{wall / 3600:.2f} h, CPU time {cpu / 3600:.2f} h"],
        ]
        for name, version in next((r["versions"] for r in records.values()), {}).items():
            rows.append([name, version])
        return markdown_table(["", ""], rows)

    def commands(self) -> str:
        blocks = []
        for run, record in sorted(self.results.records.items()):
            lines = [
                shlex.join(command) for name, command in record["commands"].items() if name != "fairseq-train"
            ]
            blocks.append(f"# {run.key}\n" + "\n".join(lines))
        return "```bash\n" + "\n\n".join(blocks) + "\n```\n"

    def text(self) -> str:
        parts = [f"# The study of [MASK], size {self.results.settings['size']}\n", self.about()]
        parts.append("Ours are means over seeds, ± the sample standard deviation where there are several.\n")
        for name, experiment in EXPERIMENTS.items():
            label = name.replace("figure", "Figure ").replace("table", "Table ")
            parts.append(f"## {label}: {experiment.title}\n")
            parts.append(f"Paper: {PAPER[name]['source']}.\n")
            parts.append(getattr(self, name)())
        parts += ["## Commands\n", self.commands()]
        return "\n".join(parts)


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("output", type=Path, metavar="DIR", help="the --output folder of run_experiments.py")
    args = parser.parse_args(argv)
    try:
        text = Report(Results(args.output)).text()
    except FolderError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    (args.output / "report.md").write_text(text, encoding="utf-8")
    print(args.output / "report.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
