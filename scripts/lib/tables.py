"""Numbers over seeds, and tables of text."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pandas as pd


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
    found = tuple(float(number) for number in numbers if not pd.isna(number))
    return Value(found, expected, median) if found else None


def number(value: float | None, digits: int = 1, missing: str = "") -> str:
    """A single number as a cell."""
    return missing if value is None else f"{value:z.{digits}f}"


def table(rows: Iterable, columns: Mapping[str, Callable[..., str]]) -> pd.DataFrame:
    """A table of text; each column is a function of a row."""
    return pd.DataFrame([[cell(row) for cell in columns.values()] for row in rows], columns=list(columns))
