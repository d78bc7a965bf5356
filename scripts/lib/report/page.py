"""A report: sections of plain text, tables and pictures, as Markdown; the HTML page is made of that."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from markdown_it import MarkdownIt
from matplotlib.figure import Figure

from lib import figures
from lib.files import atomic
from lib.tables import Table, escape

PICTURES = "pictures"  # the folder of the PNGs beside the Markdown
STYLE = Path(__file__).with_name("style.css")


def remarks(lines: list[str]) -> str:
    """A list of what the reader has to know, such as missing or damaged results."""
    return "\n".join(f"- {escape(line)}" for line in lines)


def code(title: str, text: str) -> str:
    """Commands and the like, folded under ``title``."""
    return f"<details><summary>{title}</summary>\n\n```\n{text}\n```\n\n</details>"


@dataclass(frozen=True)
class Picture:
    """A figure; ``name`` is that of its PNG, and the figure's title stands for it."""

    name: str
    figure: Figure

    @cached_property
    def png(self) -> bytes:
        return figures.png(self.figure)

    def markdown(self) -> str:
        return f"![{escape(self.figure.axes[0].get_title())}]({PICTURES}/{self.name}.png)"


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side, below each other on a narrow screen."""

    pictures: list[Picture]

    def markdown(self) -> str:
        return "\n".join(picture.markdown() for picture in self.pictures)


Block = str | Pictures | Table  # str: Markdown, of escape, remarks or code


@dataclass(frozen=True)
class Section:
    """A heading in plain text, what stands under it, and the sections below it."""

    title: str
    blocks: list[Block] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    def all(self, level: int = 1) -> Iterator[tuple[int, Section]]:
        """This section and those below it, with the level of their headings."""
        yield level, self
        for section in self.sections:
            yield from section.all(level + 1)

    def pictures(self) -> dict[str, Picture]:
        blocks = [block for _, section in self.all() for block in section.blocks]
        return {one.name: one for block in blocks if isinstance(block, Pictures) for one in block.pictures}

    def markdown(self) -> str:
        parts = []
        for level, section in self.all():
            parts.append(f"{'#' * level} {escape(section.title)}")
            parts += [one if isinstance(one, str) else one.markdown() for one in section.blocks]
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """One page with the pictures and the style inside: no script, no network."""
        reader = MarkdownIt("commonmark", {"xhtmlOut": False}).enable("table")
        rules, pictures = reader.renderer.rules, self.pictures()
        rules["table_open"] = lambda *_: '<div class="wide" tabindex="0"><table>\n'  # it scrolls on its own
        rules["table_close"] = lambda *_: "</table></div>\n"
        tokens, contents = reader.parse(self.markdown()), []
        for i, token in enumerate(tokens):
            if token.type == "heading_open":
                token.attrSet("id", f"section-{len(contents)}")
                title, indent = tokens[i + 1].content, "  " * int(token.tag[1])
                contents.append(f"{indent}- [{title}](#section-{len(contents)})")
            for child in token.children or []:
                if child.type == "image":
                    picture = pictures[Path(child.attrs["src"]).stem]
                    data = base64.b64encode(picture.png).decode()
                    child.attrSet("src", f"data:image/png;base64,{data}")
        body = reader.renderer.render(tokens, reader.options, {})
        links = reader.render("\n".join(line[4:] for line in contents[1:]))
        lines = [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{reader.renderInline(escape(self.title))}</title>",
            f"<style>\n{STYLE.read_text(encoding='utf-8')}</style></head><body><main>",
            body.replace("</h1>\n", f"</h1>\n<nav>{links}</nav>\n", 1),
            "</main></body></html>",
        ]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Writes report.md, its pictures and report.html; returns the paths of the two reports.

        Raises:
            UserError: if they cannot be written.
        """
        files = {"report.md": self.markdown().encode(), "report.html": self.html().encode()}
        pictures = {f"{PICTURES}/{name}.png": one.png for name, one in self.pictures().items()}
        for name, content in {**pictures, **files}.items():
            if name in pictures:
                (folder / PICTURES).mkdir(exist_ok=True)
            with atomic(folder / name, "wb") as file:
                file.write(content)
        return [folder / name for name in files]
