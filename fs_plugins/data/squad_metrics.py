"""SQuAD's measures (Rajpurkar et al., 2018): exact match, F1, and the threshold of giving no answer."""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=1 << 16)
def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation, without articles, words one blank apart."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact_match(prediction: str, gold: str) -> float:
    """1 if both are the same after :func:`normalise`, else 0."""
    return float(normalise(prediction) == normalise(gold))


def f1(prediction: str, gold: str) -> float:
    """Harmonic mean of precision and recall of the words, after :func:`normalise`; where one side has none, 1
    if the other has none either, else 0."""
    predicted, expected = normalise(prediction).split(), normalise(gold).split()
    if not predicted or not expected:
        return float(predicted == expected)
    shared = sum((Counter(predicted) & Counter(expected)).values())
    return 2 * shared / (len(predicted) + len(expected))


def scores(prediction: str, golds: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 with the gold answer that suits each best; with none, no answer is right.

    As in the official script, gold answers of which :func:`normalise` leaves nothing do not count, and where
    all are such, or there are none, the right prediction is the empty one.
    """
    golds = [gold for gold in golds if normalise(gold)] or [""]
    return max(exact_match(prediction, gold) for gold in golds), max(f1(prediction, gold) for gold in golds)


def best_threshold(answered: np.ndarray, abstained: np.ndarray, null_odds: np.ndarray) -> tuple[float, float]:
    """The threshold t for which "no answer where the null odds are above t" scores most.

    Args:
        answered: [n] score of each question if the answer is given.
        abstained: [n] score of each question if none is given.
        null_odds: [n] how much no answer is preferred to the best answer.

    Returns:
        The mean score at the best threshold, and that threshold: one of the null odds, or one below all of
        them where abstaining from every question is best. Of equally good ones the smallest. Questions with
        the same odds are never told apart.
    """
    order = np.argsort(null_odds, kind="stable")
    odds, gain = null_odds[order], (answered - abstained)[order]
    totals = abstained.sum() + np.concatenate([[0.0], gain.cumsum()])  # of the n surest answers given
    possible = np.concatenate([[True], odds[1:] != odds[:-1], [True]])
    surest = int(np.flatnonzero(possible)[totals[possible].argmax()])
    threshold = odds[surest - 1] if surest else np.nextafter(odds[0], -np.inf)
    return float(totals[surest] / len(odds)), float(threshold)


def evaluate(
    answers: Mapping[str, str],
    golds: Mapping[str, Sequence[str]],
    null_odds: Mapping[str, float] | None = None,
    threshold: float = 0.0,
) -> dict[str, float]:
    """The official measures, under their official names, in percent.

    Args:
        answers: question id -> prediction; with ``null_odds`` the best answer, to be given or not.
        golds: question id -> gold answers, none where the question has no answer.
        null_odds: question id -> how much no answer is preferred; without it predictions stand as they are.
        threshold: no answer is given where the null odds are above it.

    Returns:
        ``exact``, ``f1``, ``total``; the same with ``HasAns_`` and ``NoAns_`` of the questions with and
        without an answer, where there are some; with ``null_odds`` also ``best_exact``, ``best_f1`` and the
        thresholds ``best_exact_thresh``, ``best_f1_thresh`` that give them.

    Raises:
        ValueError: if a question has no prediction, or there are no questions.
    """
    ids = list(golds)
    for given, what in ((answers, "prediction"), (null_odds, "null odds")):
        missing = [] if given is None else [name for name in ids if name not in given]
        if missing:
            raise ValueError(f"{len(missing)} of {len(ids)} questions have no {what}: {missing[0]}, ...")
    if not ids:
        raise ValueError("there are no questions to evaluate")
    answered = np.array([scores(answers[name], golds[name]) for name in ids])  # [n, 2] exact, F1
    has_answer = np.array([len(golds[name]) > 0 for name in ids])
    given = answered
    if null_odds is not None:
        odds = np.array([null_odds[name] for name in ids], dtype=np.float64)
        abstained = np.repeat(~has_answer[:, None], 2, axis=1).astype(np.float64)
        given = np.where((odds > threshold)[:, None], abstained, answered)
    result: dict[str, float] = {}
    for prefix, chosen in (("", slice(None)), ("HasAns_", has_answer), ("NoAns_", ~has_answer)):
        part = given[chosen]
        if len(part):
            exact, f1_score = 100 * part.mean(0)
            result |= {f"{prefix}exact": exact, f"{prefix}f1": f1_score, f"{prefix}total": len(part)}
    if null_odds is not None:
        for column, name in enumerate(("exact", "f1")):
            best, at = best_threshold(answered[:, column], abstained[:, column], odds)
            result |= {f"best_{name}": 100 * best, f"best_{name}_thresh": at}
    return {key: int(value) if key.endswith("total") else float(value) for key, value in result.items()}
