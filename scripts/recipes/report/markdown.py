"""A report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recipes.report.page import Block, Code, Pictures, Remarks, Section, Text
from recipes.tables import Table

PICTURES = "pictures"  # the folder of the PNGs beside the Markdown
_SPECIAL = re.compile(r"([\\`*_|<>\[\]])")


def escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("\n", " ")


def table(content: Table) -> str:
    """A Markdown table; the first cell of emphasised rows is bold."""
    rows = [[escape(cell) for cell in row] for row in content.rows]
    for i in content.ours:
        rows[i][0] = f"**{rows[i][0]}**"
    lines = [[escape(cell) for cell in content.head], ["---"] * len(content.head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _block(block: Block) -> str:
    match block:
        case Text():
            return escape(block.text)
        case Remarks():
            return "\n".join(f"- {escape(line)}" for line in block.lines)
        case Pictures():
            return "\n".join(f"![{escape(one.alt)}]({PICTURES}/{one.name}.png)" for one in block.pictures)
        case Code():
            return f"{escape(block.title)}:\n\n```\n{block.text}\n```"
        case Table():
            return table(block)
    raise TypeError(f"{block!r} is not a block of a report")


def _parts(section: Section, level: int) -> Iterator[str]:
    yield f"{'#' * level} {escape(section.title)}"
    yield from map(_block, section.blocks)
    for below in section.sections:
        yield from _parts(below, level + 1)


def render(page: Section) -> str:
    return "\n\n".join(_parts(page, 1)) + "\n"
