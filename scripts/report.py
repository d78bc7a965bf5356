"""Writes a report of results beside the paper's numbers: report.md with its pictures, and report.html, which
is self-contained.

    python scripts/report.py runs/smoke
    python scripts/report.py ExLM=runs/exlm MLM=runs/mlm --output runs/report

OUTPUT is a folder of the workflow. The report has whatever it holds of the study (figures 3, 4, 5, 8, 9 and
12, tables 2, 4, 12 and 13), table 1 and table 3, also while the workflow is still running. NAME=DIR is a
model whose results were made by hand; DIR is searched for the files of finetune_glue.sh (result.json),
finetune_squad.sh (scores.json), finetune_moleculenet.sh and baseline_moleculenet.py (metrics.json).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from lib.command_line import UserError, argument_parser, run_main, seeds
from lib.report import study_tables, table1, table3
from lib.report.finetunings import Model
from lib.report.page import Section, code, remarks
from lib.report.reader import Reader
from lib.report.study import Study
from lib.tables import escape

PARTS = ("study", "table1", "table3")  # of a folder of the workflow
MOST_PROBLEMS = 10  # shown at once
TITLE = "ExLM: the paper's results and ours"


@dataclass
class Inputs:
    """What was found in the folders on the command line."""

    seeds: tuple[int, ...]
    reader: Reader = field(default_factory=Reader)
    studies: list[Study] = field(default_factory=list)
    table1: list[Model] = field(default_factory=list)
    table3: list[Model] = field(default_factory=list)

    def add(self, given: str) -> Path:
        """Adds an OUTPUT or a NAME=DIR; returns its folder.

        Raises:
            UserError: if there is no such folder, or it holds no results.
        """
        name, equals, path = given.partition("=")
        if equals and not (name and path):
            raise UserError(f"{given!r}: give NAME=DIR, or the folder alone")
        if not equals or Path(given).is_dir():
            name, path = Path(given).resolve().name, given
        folder = Path(path)
        if not folder.is_dir():
            raise UserError(
                f"{folder} does not exist" if not folder.exists() else f"{folder} is not a folder"
            )
        if any((folder / part).is_dir() for part in PARTS):
            self._add_output(folder)
        else:
            self._add_model(name, folder)
        return folder

    def _add_output(self, output: Path) -> None:
        if (output / "study").is_dir():
            self.studies.append(Study(output, self.reader))
        for folder in sorted(path for path in (output / "table1").glob("*") if path.is_dir()):
            self.table1.append(table1.read(folder.name, folder, self.reader, self.seeds))
        for folder in sorted(path for path in (output / "table3").glob("*") if path.is_dir()):
            model = table3.read(folder.name, folder, self.reader, self.seeds)
            if model is None:
                self.reader.note(f"{folder} holds no results")
            else:
                self.table3.append(model)

    def _add_model(self, name: str, folder: Path) -> None:
        molecules = table1.read(name, folder, self.reader, self.seeds)
        if molecules:
            self.table1.append(molecules)
        if text := table3.read(name, folder, self.reader, self.seeds):
            self.table3.append(text)
        if not (molecules or text):
            raise UserError(
                f"{folder} holds no results: give a folder of the workflow (with {', '.join(PARTS)}), or one "
                "with result.json, scores.json or metrics.json of the fine-tuning scripts"
            )

    def check_names(self) -> None:
        """Raises UserError if two models have one name."""
        for models in (self.table1, self.table3):
            folders = {}
            for model in models:
                if model.name in folders:
                    raise UserError(
                        f"{folders[model.name]} and {model.folder} are both named {model.name}: give each "
                        "its own name by NAME=DIR"
                    )
                folders[model.name] = model.folder

    def page(self) -> Section:
        sections = table1.sections(self.table1) if self.table1 else []
        if self.table3:
            sections.append(table3.section(self.table3, self.reader))
        for i, study in enumerate(self.studies, 1):
            several = len(self.studies) > 1
            title = f"The study of [MASK]{f': {study.output}' if several else ''}"
            sections.append(study_tables.section(study, title, f"study{i}-" if several else ""))
        if origins := self.reader.provenance():
            sections.append(origins)
        blocks = []
        if self.reader.problems:
            shown, more = self.reader.problems[:MOST_PROBLEMS], self.reader.problems[MOST_PROBLEMS:]
            blocks = [escape("Damaged or unused results:"), remarks(shown)]
            if more:
                blocks.append(code(f"{len(more):,} more", "\n".join(more)))
        return Section(TITLE, blocks, sections)


def run(argv: list[str] | None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add(
        "results", nargs="+", metavar="OUTPUT|NAME=DIR", help="folders of the workflow, or of results by hand"
    )
    add("--output", type=Path, metavar="DIR", help="write the report there (default: into the first folder)")
    what = (
        "seeds that each result should have, where the results don't say (default: all that any of them has)"
    )
    add("--seeds", type=seeds, default=(), metavar="1,2,3", help=what)
    args = parser.parse_args(argv)
    inputs = Inputs(args.seeds)
    folders = [inputs.add(given) for given in args.results]
    inputs.check_names()
    output = args.output or folders[0]
    if output.exists() and not output.is_dir():
        raise UserError(f"--output {output} is not a folder")
    output.mkdir(parents=True, exist_ok=True)
    for path in inputs.page().write(output):
        print(path)


def main(argv: list[str] | None = None) -> int:
    return run_main(lambda: run(argv))


if __name__ == "__main__":
    sys.exit(main())
