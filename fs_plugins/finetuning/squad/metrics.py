"""SQuAD's measures (Rajpurkar et al., 2018): exact match, F1, and the threshold of giving no answer."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=1 << 16)
def normalise(text: str) -> str:
    """Returns a text in lower case, without ASCII punctuation, without articles, words one blank apart."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def scores(prediction: str, golds: Sequence[str]) -> tuple[float, float]:
    """Returns exact match and F1 (harmonic mean of precision and recall of the words), after
    :func:`normalise`, with the gold answer that suits each best; with none, no answer is right.

    As in the official script, gold answers of which :func:`normalise` leaves nothing do not count, and where
    all are such, or there are none, the right prediction is the empty one.
    """
    words = normalise(prediction).split()
    exact, f1 = 0.0, 0.0
    for gold in [gold for gold in golds if normalise(gold)] or [""]:
        expected = normalise(gold).split()
        shared = sum((Counter(words) & Counter(expected)).values())
        exact = max(exact, float(words == expected))
        f1 = max(f1, 2 * shared / (len(words) + len(expected)) if words or expected else 1.0)
    return exact, f1


def best_threshold(answered: np.ndarray, abstained: np.ndarray, null_odds: np.ndarray) -> tuple[float, float]:
    """Returns the best mean score of "no answer where the null odds are above t", and its threshold t: one of
    the null odds, or one below all of them where abstaining from every question is best. Of equally good ones
    the smallest. Questions with the same odds are never told apart.

    Args:
        answered, abstained: [n] score of each question if the answer is given, and if none is.
        null_odds: [n] how much no answer is preferred to the best answer.
    """
    order = np.argsort(null_odds, kind="stable")
    odds, gain = null_odds[order], (answered - abstained)[order]
    # scores if the n surest answers are given
    totals = abstained.sum() + np.concatenate([[0.0], gain.cumsum()])
    possible = np.concatenate([[True], odds[1:] != odds[:-1], [True]])
    surest = int(np.flatnonzero(possible)[totals[possible].argmax()])
    below = min(np.nextafter(odds[0], -np.inf), odds[0] - np.finfo(np.float64).tiny)  # subnormals may be 0
    threshold = odds[surest - 1] if surest else below
    return float(totals[surest] / len(odds)), float(threshold)


def evaluate(
    answers: Sequence[str], golds: Sequence[Sequence[str]], null_odds: np.ndarray, threshold: float = 0.0
) -> dict[str, float]:
    """Returns the official measures, under their official names, in percent: ``exact``, ``f1``, ``total``;
    the same with ``HasAns_`` and ``NoAns_`` of the questions with and without an answer, if there are some;
    ``best_exact``, ``best_f1`` and the thresholds ``best_exact_thresh``, ``best_f1_thresh`` that give them.

    Args:
        answers: the best answer to each question.
        golds: the right ones, none if the question has no answer.
        null_odds: [n] how much no answer is preferred.
        threshold: no answer is given if the null odds are above it.
    """
    answered = np.array([scores(*pair) for pair in zip(answers, golds, strict=True)])  # [n, 2] exact, F1
    has_answer = np.array([len(gold) > 0 for gold in golds])
    abstained = np.repeat(~has_answer[:, None], 2, axis=1).astype(np.float64)
    given = np.where((null_odds > threshold)[:, None], abstained, answered)
    result: dict[str, float] = {}
    for prefix, chosen in (("", slice(None)), ("HasAns_", has_answer), ("NoAns_", ~has_answer)):
        if len(part := given[chosen]):
            exact, f1 = (100 * part.mean(0)).tolist()
            result |= {f"{prefix}exact": exact, f"{prefix}f1": f1, f"{prefix}total": len(part)}
    for column, name in enumerate(("exact", "f1")):
        best, at = best_threshold(answered[:, column], abstained[:, column], null_odds)
        result |= {f"best_{name}": 100 * best, f"best_{name}_thresh": at}
    return result
