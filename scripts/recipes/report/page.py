"""What a report consists of. All text is plain: ``markdown`` and ``html`` escape it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from recipes.tables import Table


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Remarks:
    """A list of what the reader has to know, such as missing or damaged results."""

    lines: list[str]


@dataclass(frozen=True)
class Picture:
    """A PNG; ``name`` is that of its file."""

    name: str
    alt: str
    content: bytes


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side, below each other on a narrow screen."""

    pictures: list[Picture]


@dataclass(frozen=True)
class Code:
    """Commands and the like, folded in the HTML page under ``title``."""

    title: str
    text: str


Block = Text | Remarks | Pictures | Code | Table


@dataclass(frozen=True)
class Section:
    """A heading, what stands under it, and the sections below it."""

    title: str
    blocks: list[Block] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    def pictures(self) -> Iterator[Picture]:
        for block in self.blocks:
            if isinstance(block, Pictures):
                yield from block.pictures
        for section in self.sections:
            yield from section.pictures()
