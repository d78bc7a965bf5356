"""Means and standard deviations over seeds, also where the single runs are not known."""

from dataclasses import dataclass

import pandas as pd
from lib.report.tables import Value, over_seeds
from scipy import stats


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation of n seeds; no deviation of a single one."""

    centre: float
    spread: float | None
    n: int

    def text(self, digits: int) -> str:
        return f"{self.centre:z.{digits}f}" + ("" if self.spread is None else f" ± {self.spread:.{digits}f}")


Known = Summary | Value | None


def mean(rows: pd.DataFrame, column: str) -> Summary | None:
    """Returns the mean over seeds: of rows of one seed each, or of one row that is itself a mean."""
    if len(rows) == 1 and f"{column}_sd" in rows and rows[column].notna().all():
        row = rows.iloc[0]
        spread = None if pd.isna(row[f"{column}_sd"]) else float(row[f"{column}_sd"])
        return Summary(float(row[column]), spread, len(row["seeds"].split()))
    return summary(over_seeds(rows[column])) if column in rows else None


def summary(value: Known) -> Summary | None:
    return Summary(value.centre, value.spread, len(value.numbers)) if isinstance(value, Value) else value


def text(value: Known, digits: int) -> str:
    """Returns a value as a cell, which is empty without one."""
    return summary(value).text(digits) if value else ""


def standard_error(first: Known, second: Known) -> float | None:
    """Returns the standard error of the difference of two means; None if either is of one seed."""
    parts = [summary(value) for value in (first, second)]
    if any(part.spread is None for part in parts):
        return None
    return sum(part.spread**2 / part.n for part in parts) ** 0.5


def p_value(first: Known, second: Known) -> float:
    """Returns the p-value of Welch's t over seeds; NaN if either is of one seed."""
    if standard_error(first, second) is None:
        return float("nan")
    numbers = [number for one in map(summary, (first, second)) for number in (one.centre, one.spread, one.n)]
    return stats.ttest_ind_from_stats(*numbers, equal_var=False).pvalue


def difference(first: Known, second: Known, digits: int = 3) -> str:
    """Returns the difference of the means ± its standard error; * if its 95% interval (Welch's t) excludes
    zero."""
    if not (first and second):
        return ""
    centre, error = f"{first.centre - second.centre:+z.{digits}f}", standard_error(first, second)
    if error is None:
        return centre
    return f"{centre} ± {error:.{digits}f}" + ("*" if p_value(first, second) < 0.05 else "")


def paired(numbers: pd.Series, digits: int) -> str:
    """Returns the mean of differences, one of each seed, ± its standard error; * if the 95% interval
    (Student's t) excludes zero."""
    found = "" if numbers.empty else f"{numbers.mean():+z.{digits}f}"
    if len(numbers) < 2:
        return found
    star = "*" if stats.ttest_1samp(numbers, 0).pvalue < 0.05 else ""
    return f"{found} ± {numbers.sem():.{digits}f}{star}"


def interval(numbers: pd.Series, digits: int) -> str:
    """Returns the 95% interval of the mean of differences, one of each seed, by Student's t."""
    if len(numbers) < 2:
        return ""
    low, high = stats.t.interval(0.95, len(numbers) - 1, numbers.mean(), numbers.sem())
    return f"{low:+z.{digits}f} to {high:+z.{digits}f}"
