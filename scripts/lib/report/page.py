"""A report: sections of text, tables and pictures, as Markdown and as one self-contained HTML page."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader
from matplotlib.figure import Figure

from lib import figures
from lib.files import atomic

PICTURES = "pictures"  # the folder of the PNGs beside the Markdown
_SPECIAL = re.compile(r"([\\`*_|<>\[\]&~#])")
_LIST = re.compile(r"^(\d*)([-+.)])(?=\s)")

# text; remarks; a table of text, in which our models end in "(ours)"; names of pictures -> figures or PNGs
Block = str | list[str] | pd.DataFrame | dict[str, Figure | Path]


def markdown(text: object) -> str:
    """Plain text as Markdown."""
    escaped = _LIST.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", " ".join(str(text).split())))
    return f"**{escaped}**" if escaped.endswith("(ours)") else escaped


def markdown_table(table: pd.DataFrame) -> str:
    """A table of text as Markdown."""
    lines = [map(markdown, table.columns), ["---"] * len(table.columns)]
    lines += [map(markdown, row) for row in table.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass(frozen=True)
class Section:
    """A heading, what stands under it, and the sections below it."""

    title: str
    blocks: list[Block] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    def all(self, level: int = 1) -> Iterator[tuple[int, Section]]:
        """This section and those below it, with the level of their headings."""
        yield level, self
        for section in self.sections:
            yield from section.all(level + 1)

    def render(self, template: str, pictures: dict[str, bytes]) -> str:
        """By report.md.j2 or report.html.j2, with the PNG of each picture."""
        environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent),
            autoescape=template.endswith("html.j2"),
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        environment.filters |= {"markdown": markdown, "markdown_table": markdown_table}
        environment.filters["base64"] = lambda png: base64.b64encode(png).decode()
        environment.filters["alt"] = lambda one: (
            one.stem if isinstance(one, Path) else one.axes[0].get_title()
        )
        environment.tests["table"] = lambda block: isinstance(block, pd.DataFrame)
        return environment.get_template(template).render(page=self, pictures=pictures, folder=PICTURES)

    def write(self, folder: Path) -> list[Path]:
        """Writes report.md, its pictures and report.html; returns the paths of the two reports.

        Raises:
            UserError: if they cannot be written.
        """
        blocks = [block for _, section in self.all() for block in section.blocks if isinstance(block, dict)]
        pictures = {
            name: one.read_bytes() if isinstance(one, Path) else figures.png(one)
            for block in blocks
            for name, one in block.items()
        }
        files = {f"{PICTURES}/{name}.png": png for name, png in pictures.items()}
        files |= {name: self.render(f"{name}.j2", pictures).encode() for name in ("report.md", "report.html")}
        if pictures:
            (folder / PICTURES).mkdir(exist_ok=True)
        for name, content in files.items():
            with atomic(folder / name, "wb") as file:
                file.write(content)
        return [folder / "report.md", folder / "report.html"]
