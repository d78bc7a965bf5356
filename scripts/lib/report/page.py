"""A report: Markdown with its pictures beside it."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from lib.report import figures
from matplotlib.figure import Figure

from fs_plugins.files import atomic, write_text

# a cell of a column of numbers
NUMBER = re.compile(r"[-+]?\d[\d,./]*(e[-+]?\d+)?%?( ± .*| \(.*|[*†]+.*)?|-|")
_SPECIAL = re.compile(r"([\\`*_|<>\[\]&~#])")


def markdown(text: object) -> str:
    """Returns plain text as Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def markdown_table(table: pd.DataFrame) -> str:
    """Returns a table of text as Markdown; the head of a column with a group is "group: name". Columns of
    numbers are at the right."""
    heads = [head if isinstance(head, str) else ": ".join(head) for head in table.columns]
    rows = [list(map(str, row)) for row in table.to_numpy().tolist()]
    numbers = [bool(rows) and all(NUMBER.fullmatch(row[i]) for row in rows) for i in range(len(heads))]
    lines = [map(markdown, heads), ["---:" if right else "---" for right in numbers]]
    lines += [map(markdown, row) for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass
class Page:
    """A report, to which headings, plain text, tables of text and pictures are added one after another."""

    title: str
    folder: Path  # of report.md and the pictures
    parts: list[str | pd.DataFrame] = field(default_factory=list)  # Markdown, and tables

    def heading(self, level: int, text: str) -> None:
        self.parts.append(f"{'#' * level} {markdown(text)}")

    def text(self, text: str) -> None:
        self.parts += [markdown(text)] if text else []

    def items(self, lines: list[str]) -> None:
        self.parts += ["\n".join(f"- {markdown(line)}" for line in lines)] if lines else []

    def table(self, table: pd.DataFrame) -> None:
        self.parts.append(table)

    def picture(self, name: str, figure: Figure) -> None:
        """Writes a picture at once."""
        path = self.folder / "pictures" / f"{name}.png"
        path.parent.mkdir(exist_ok=True)
        with atomic(path, "wb") as file:
            file.write(figures.picture(figure))
        self.parts.append(f"![{markdown(figure.get_label())}](pictures/{name}.png)")

    def markdown(self) -> str:
        parts = (part if isinstance(part, str) else markdown_table(part) for part in self.parts)
        return "\n\n".join([f"# {markdown(self.title)}", *parts]) + "\n"

    def write(self) -> Path:
        """Writes report.md, whose path it returns."""
        write_text(self.folder / "report.md", self.markdown())
        return self.folder / "report.md"
