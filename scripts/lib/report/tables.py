"""Numbers over seeds, as the reports and the pages of results write them."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Value:
    """A result over seeds."""

    numbers: tuple[float, ...]  # one per finished seed, at least one
    expected: int = 0  # seeds that were begun or asked for; 0 if that is not known
    median: bool = False  # whether the median stands for the seeds, as in table 3; otherwise the mean

    @property
    def n(self) -> int:
        return len(self.numbers)

    @property
    def centre(self) -> float:
        return (statistics.median if self.median else statistics.fmean)(self.numbers)

    @property
    def spread(self) -> float | None:
        """Returns the sample standard deviation; None for a single seed."""
        return statistics.stdev(self.numbers) if self.n > 1 else None

    @property
    def interval(self) -> tuple[float, float]:
        """Returns the error bar in a picture: mean ± standard deviation."""
        spread = self.spread or 0.0
        return self.centre - spread, self.centre + spread

    def text(self, digits: int = 1, count: bool = True) -> str:
        """Returns a text such as "82.0 ± 1.4 (n=3)"; "82.0 (n=2 of 3)", a median with a seed missing; "82.0",
        one seed."""
        spread = f" ± {self.spread:.{digits}f}" if self.spread is not None and not self.median else ""
        n = f"{self.n}" + (f" of {self.expected}" if self.n < self.expected else "")
        return f"{self.centre:z.{digits}f}{spread}" + (f" (n={n})" if count and n != "1" else "")


def over_seeds(numbers: Iterable[float | None], expected: int = 0, median: bool = False) -> Value | None:
    """Returns the value of the seeds that have a number; None if none has."""
    known = tuple(float(number) for number in numbers if not pd.isna(number))
    return Value(known, expected, median) if known else None


def text(value: Value | float | None, digits: int = 1, count: bool = False) -> str:
    """Returns a value or a number as a cell, which is empty without one."""
    if isinstance(value, Value):
        return value.text(digits, count)
    return "" if pd.isna(value) else f"{value:z.{digits}f}"
