"""Means over tokens, with each sentence as one cluster."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Mean:
    """A mean over tokens; ``standard_error`` with each sentence's tokens as one cluster; how many of each."""

    mean: float
    standard_error: float
    tokens: int
    sentences: int


@dataclass
class ClusteredMean:
    """Sums and counts of sentences, for a mean over all their tokens."""

    sums: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def add(self, values: Tensor, wanted: Tensor) -> None:
        """Adds values [B, M], of which those ``wanted`` [B, M] count; a row is a sentence."""
        self.add_sums(torch.where(wanted, values, 0.0).double().sum(1), wanted.sum(1))

    def add_sums(self, sums: Tensor, counts: Tensor) -> None:
        """Adds sentences [B], by the sum of the values of each one's tokens and by how many these are."""
        self.sums += sums.double().tolist()
        self.counts += counts.tolist()

    def result(self) -> Mean | None:
        """Returns the mean, None where no token was counted; the error is NaN for a single sentence."""
        sums, counts = np.array(self.sums), np.array(self.counts)
        sums, counts = sums[counts > 0], counts[counts > 0]
        if len(counts) == 0:
            return None
        mean, n = sums.sum() / counts.sum(), len(counts)
        spread = ((sums - mean * counts) ** 2).sum()
        error = math.sqrt(spread * n / (n - 1)) / counts.sum() if n > 1 else math.nan
        return Mean(float(mean), float(error), int(counts.sum()), n)
