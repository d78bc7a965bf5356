"""A report as one HTML page with the pictures and the style inside: no script, no network."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from html import escape
from pathlib import Path

from recipes.report.page import Block, Code, Pictures, Remarks, Section, Text
from recipes.tables import Table

STYLE = Path(__file__).with_name("style.css")


def _cell(text: str) -> str:
    """A cell's text; a number is not torn from its spread, nor a count from its total."""
    return escape(text).replace(" ± ", "\u00a0±\u00a0").replace(" of ", "\u00a0of\u00a0")


def _row(cells, tag: str, kind: str = "") -> str:
    inner = "".join(f"<{tag}>{_cell(cell)}</{tag}>" for cell in cells)
    return f"<tr{kind}>{inner}</tr>"


def table(content: Table) -> str:
    """A table that scrolls sideways on its own, with the first column in place."""
    rows = [
        _row(row, "td", ' class="ours"' if i in content.ours else "") for i, row in enumerate(content.rows)
    ]
    head = _row(content.head, "th") if any(content.head) else ""
    body = f"<thead>{head}</thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="wide" tabindex="0"><table>{body}</table></div>'


def _block(block: Block) -> str:
    match block:
        case Text():
            return f"<p>{escape(block.text)}</p>"
        case Remarks():
            items = "".join(f"<li>{escape(line)}</li>" for line in block.lines)
            return f'<ul class="remarks">{items}</ul>'
        case Pictures():
            images = (
                f'<img alt="{escape(one.alt)}" src="data:image/png;base64,'
                f'{base64.b64encode(one.content).decode()}">'
                for one in block.pictures
            )
            return f'<div class="pictures">{"".join(images)}</div>'
        case Code():
            return (
                f"<details><summary>{escape(block.title)}</summary><pre>{escape(block.text)}</pre></details>"
            )
        case Table():
            return table(block)
    raise TypeError(f"{block!r} is not a block of a report")


def _parts(section: Section, place: tuple[int, ...] = ()) -> Iterator[str]:
    level = min(len(place) + 1, 6)
    yield f'<h{level} id="{_anchor(place)}">{escape(section.title)}</h{level}>'
    if not place:
        yield f"<nav>{_contents(section.sections)}</nav>"
    yield from map(_block, section.blocks)
    for i, below in enumerate(section.sections, 1):
        yield from _parts(below, (*place, i))


def _anchor(place: tuple[int, ...]) -> str:
    return "-".join(["section", *map(str, place)])


def _contents(sections: list[Section], place: tuple[int, ...] = ()) -> str:
    items = (
        f'<li><a href="#{_anchor((*place, i))}">{escape(one.title)}</a>'
        f"{_contents(one.sections, (*place, i)) if one.sections else ''}</li>"
        for i, one in enumerate(sections, 1)
    )
    return f"<ul>{''.join(items)}</ul>"


def render(page: Section) -> str:
    style = STYLE.read_text(encoding="utf-8")
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(page.title)}</title>",
        f"<style>\n{style}</style></head><body><main>",
        *_parts(page),
        "</main></body></html>",
    ]
    return "\n".join(lines) + "\n"
