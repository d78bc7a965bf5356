"""Numbers over seeds, and Markdown tables of them."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
_SPECIAL = re.compile(r"([\\`*_|<>\[\]&~#])")
_LIST = re.compile(r"^(\d*)([-+.)])(?=\s)")


@dataclass(frozen=True)
class Value:
    """A result over seeds.

    Attributes:
        numbers: one per finished seed, at least one.
        expected: seeds that were begun or asked for; 0 if that is not known.
        median: whether the median stands for the seeds, as in table 3; otherwise the mean.
    """

    numbers: tuple[float, ...]
    expected: int = 0
    median: bool = False

    @property
    def centre(self) -> float:
        return (statistics.median if self.median else statistics.fmean)(self.numbers)

    @property
    def spread(self) -> float | None:
        """The sample standard deviation; None for a single seed."""
        return statistics.stdev(self.numbers) if len(self.numbers) > 1 else None

    @property
    def interval(self) -> tuple[float, float]:
        """The error bar in a picture: mean ± standard deviation; the range, for a median."""
        if self.median:
            return min(self.numbers), max(self.numbers)
        spread = self.spread or 0.0
        return self.centre - spread, self.centre + spread

    def text(self, digits: int = 1) -> str:
        """Such as "82.0 ± 1.4 (n=3)"; "82.0 (n=2 of 3)", a median with a seed missing; "82.0", one seed."""
        spread = f" ± {self.spread:.{digits}f}" if self.spread is not None and not self.median else ""
        count = f"{len(self.numbers)}" + (f" of {self.expected}" if len(self.numbers) < self.expected else "")
        return f"{self.centre:z.{digits}f}{spread}" + ("" if count == "1" else f" (n={count})")


def over_seeds(numbers: Iterable[float | None], expected: int = 0, median: bool = False) -> Value | None:
    """The value of the seeds that have a number; None if none has."""
    found = tuple(number for number in numbers if number is not None)
    return Value(found, expected, median) if found else None


def number(value: float | None, digits: int = 1, missing: str = "") -> str:
    """A number of the paper's as a cell."""
    return missing if value is None else f"{value:z.{digits}f}"


def escape(text: str) -> str:
    """Plain text as Markdown."""
    return _LIST.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", " ".join(text.split())))


@dataclass(frozen=True)
class Table:
    """A table of text; the cells are plain, with no markup.

    Attributes:
        ours: the rows that are emphasised.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    ours: Collection[int] = field(default=())

    def __post_init__(self):
        for row in self.rows:
            if len(row) != len(self.head):
                raise ValueError(f"a row of {len(row)} cells in a table of {len(self.head)} columns: {row}")

    @classmethod
    def of(cls, rows: Iterable[T], columns: Mapping[str, Callable[[T], str]]) -> Table:
        """Each column is a function of a row."""
        return cls(list(columns), [[column(row) for column in columns.values()] for row in rows])

    def markdown(self) -> str:
        """The first cell of emphasised rows is bold."""
        rows = [[escape(cell) for cell in row] for row in self.rows]
        for i in self.ours:
            rows[i][0] = f"**{rows[i][0]}**"
        lines = [[escape(cell) for cell in self.head], ["---"] * len(self.head), *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
