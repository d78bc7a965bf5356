"""Means and standard deviations over seeds, also where the single runs are not known."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd
from lib.report.tables import Value, over_seeds
from scipy import stats


@dataclass(frozen=True)
class Summary:
    """What a Value tells of n seeds whose numbers were not kept."""

    centre: float
    spread: float | None  # sample standard deviation; None for a single seed
    n: int

    def text(self, digits: int, count: bool = False) -> str:
        return f"{self.centre:z.{digits}f}" + ("" if self.spread is None else f" ± {self.spread:.{digits}f}")


Known = Summary | Value | None


def mean(rows: pd.DataFrame, column: str) -> Known:
    """Returns the mean over seeds: of rows of one seed each, or of one row that is itself a mean."""
    if len(rows) == 1 and f"{column}_sd" in rows and rows[column].notna().all():
        row = rows.iloc[0]
        spread = None if pd.isna(row[f"{column}_sd"]) else float(row[f"{column}_sd"])
        return Summary(float(row[column]), spread, len(row["seeds"].split()))
    return over_seeds(rows[column]) if column in rows else None


def text(value: Known, digits: int) -> str:
    """Returns a value as a cell, which is empty without one."""
    return value.text(digits, count=False) if value else ""


def holm(p_values: Iterable[float], level: float = 0.05) -> float:
    """Returns the largest of several p-values that is significant by Holm's method, 0 if none is."""
    ranked = sorted(p for p in p_values if not math.isnan(p))
    least = 0.0
    for i, p in enumerate(ranked):
        if p > level / (len(ranked) - i):
            break
        least = p
    return least


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
