"""A report: Markdown with its pictures beside it, and the same as one self-contained HTML page."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import pandas as pd
from lib import figures
from lib.files import atomic
from markdown_it import MarkdownIt
from matplotlib.figure import Figure

PICTURES = "pictures"  # the folder of the PNGs beside the Markdown
_SPECIAL = re.compile(r"([\\`*_|<>\[\]&~#])")
_LIST = re.compile(r"^(\d*)([-+.)])(?=\s)")
_HTML = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
{style}</style></head><body><main>
{body}</main></body></html>
"""


def markdown(text: object) -> str:
    """Plain text as Markdown; the name of one of our models in bold."""
    escaped = _LIST.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", " ".join(str(text).split())))
    return f"**{escaped}**" if escaped.endswith("(ours)") else escaped


def markdown_table(table: pd.DataFrame) -> str:
    """A table of text as Markdown."""
    lines = [map(markdown, table.columns), ["---"] * len(table.columns)]
    lines += [map(markdown, row) for row in table.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass
class Page:
    """A report, to which headings, plain text, tables and pictures are added one after another."""

    title: str
    parts: list[str] = field(default_factory=list)
    pictures: dict[str, Figure | Path] = field(default_factory=dict)  # by the name of their PNG

    def heading(self, level: int, text: str) -> None:
        self.parts.append(f"{'#' * level} {markdown(text)}")

    def text(self, text: str) -> None:
        self.parts += [markdown(text)] if text else []

    def list(self, lines: list[str]) -> None:
        if lines:
            self.parts.append("\n".join(f"- {markdown(line)}" for line in lines))

    def table(self, table: pd.DataFrame) -> None:
        self.parts.append(markdown_table(table))

    def picture(self, name: str, picture: Figure | Path) -> None:
        about = picture.stem if isinstance(picture, Path) else picture.axes[0].get_title()
        self.pictures[f"{PICTURES}/{name}.png"] = picture
        self.parts.append(f"![{markdown(about)}]({PICTURES}/{name}.png)")

    def html(self, pictures: dict[str, bytes]) -> str:
        """Rendered from the Markdown, with the PNGs inside."""
        parser = MarkdownIt().enable("table")
        tokens = parser.parse(self.markdown())
        for child in (child for token in tokens for child in token.children or ()):
            if child.type == "image":
                png = base64.b64encode(pictures[child.attrGet("src")]).decode()
                child.attrSet("src", f"data:image/png;base64,{png}")
        body = parser.renderer.render(tokens, parser.options, {})
        style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
        return _HTML.format(title=escape(self.title), style=style, body=body)

    def markdown(self) -> str:
        return "\n\n".join([f"# {markdown(self.title)}", *self.parts]) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Writes report.md, its pictures and report.html; returns the paths of the two reports.

        Raises:
            UserError: if they cannot be written.
        """
        pictures = {
            name: one.read_bytes() if isinstance(one, Path) else figures.png(one)
            for name, one in self.pictures.items()
        }
        texts = {"report.md": self.markdown().encode(), "report.html": self.html(pictures).encode()}
        if pictures:
            (folder / PICTURES).mkdir(exist_ok=True)
        for name, content in {**pictures, **texts}.items():
            with atomic(folder / name, "wb") as file:
                file.write(content)
        return [folder / "report.md", folder / "report.html"]
