"""Numbers over seeds, as the reports and the pages of results write them."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd
from scipy import stats


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


def difference(first: Value | None, second: Value | None, digits: int = 3) -> str:
    """Returns the difference of the means ± its standard error; * if its 95% interval (Welch's t) excludes
    zero."""
    if not (first and second):
        return ""
    centre, error = f"{first.centre - second.centre:+z.{digits}f}", standard_error(first, second)
    if error is None:
        return centre
    return f"{centre} ± {error:.{digits}f}" + ("*" if p_value(first, second) < 0.05 else "")


def p_value(first: Value, second: Value) -> float:
    """Returns the p-value of Welch's t over seeds; NaN if either is of one seed."""
    if standard_error(first, second) is None:
        return math.nan
    numbers = [number for one in (first, second) for number in (one.centre, one.spread, one.n)]
    return stats.ttest_ind_from_stats(*numbers, equal_var=False).pvalue


def standard_error(first: Value, second: Value) -> float | None:
    """Returns the standard error of the difference of two means; None if either is of one seed."""
    if first.spread is None or second.spread is None:
        return None
    return math.hypot(first.spread / first.n**0.5, second.spread / second.n**0.5)
