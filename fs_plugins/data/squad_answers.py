"""Answers of scores of tokens: the best spans of each window, over the windows of each question, and SQuAD's
measures of them (Rajpurkar et al., 2018): exact match, F1, and the threshold of giving no answer.

The score of a span is the sum of the scores of its first and its last token; that of no answer is the sum of
both at ``<s>`` (Devlin et al., 2019). A question's best answer is the best span of all its windows. The score
of no answer is that of the window where it is least; ``null odds`` are this less the score of the best span.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from fs_plugins.data.squad_windows import SquadDataset

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def best_spans(start: Tensor, end: Tensor, longest: int, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """The n best spans of each window, of at most ``longest`` tokens; the place of ``<s>`` is in none.

    Args:
        start, end: [B, T] scores of being the first and the last token, -inf where that is not allowed.
        longest: most tokens of a span.
        n: spans to give.

    Returns:
        Scores [B, n] in descending order, first tokens [B, n] and last tokens [B, n]; fewer than n where a
        window of T tokens can't have as many, and scores of -inf where it has fewer.
    """
    B, T = start.shape
    longest = min(longest, T)
    start = start.clone()
    start[:, 0] = -math.inf
    ends = torch.nn.functional.pad(end, (0, longest - 1), value=-math.inf).unfold(1, longest, 1)
    spans = (start[:, :, None] + ends).flatten(1)  # [B, T * longest]: first token, tokens after it
    scores, which = spans.topk(min(n, spans.shape[1]), dim=1)
    first = which // longest
    return scores, first, (first + which % longest).clamp(max=T - 1)


def window_answers(start: Tensor, end: Tensor, ids: Tensor, longest: int, n: int = 1) -> np.ndarray:
    """What of a batch's scores is needed for answers.

    Args:
        start, end, longest, n: as in :func:`best_spans`.
        ids: [B] of the windows.

    Returns:
        [B * n, 5] float64: window, score of no answer, score of the span, its first and its last token (n as
        in :func:`best_spans`).
    """
    start, end = start.float(), end.float()
    scores, first, last = best_spans(start, end, longest, n)
    null = (start[:, 0] + end[:, 0])[:, None].expand_as(scores)
    window = ids[:, None].expand_as(scores)
    columns = [x.double() for x in (window, null, scores, first, last)]
    return torch.stack(columns, dim=-1).flatten(0, 1).cpu().numpy()


class AnswerTable:
    """Collects :func:`window_answers` of a split, whatever their order, and makes predictions of them."""

    def __init__(self, dataset: SquadDataset, n_best: int = 20):
        self.dataset = dataset
        self.n_best = n_best
        self.null: dict[int, dict[int, float]] = {}  # question -> window -> score of no answer
        self.spans: dict[int, dict[tuple[int, int], float]] = {}  # question -> characters -> score

    def add(self, rows: np.ndarray) -> None:
        """Adds rows of :func:`window_answers`.

        Raises:
            ValueError: if a score is no number.
        """
        name = self.dataset.name
        if (broken := np.isnan(rows[:, 1:3]).any(1)).any():
            raise ValueError(
                f"{len(set(rows[broken, 0]))} windows of {name} have scores that are no numbers: the "
                "training diverged, give it a lower --lr"
            )
        for window, null, score, first, last in rows.tolist():
            question = int(self.dataset.windows.question[int(window)])
            self.null.setdefault(question, {})[int(window)] = null
            spans = self.spans.setdefault(question, {})
            if score > -math.inf:
                place = self.dataset.character_span(int(window), int(first), int(last))
                spans[place] = max(score, spans.get(place, -math.inf))

    @property
    def windows(self) -> int:
        """Windows that were added."""
        return sum(map(len, self.null.values()))

    def ranked(self, question: int) -> list[tuple[str, float]]:
        """The n best answers of a question with their scores, of several with one text the best."""
        context = self.dataset.split.squad.contexts[self.dataset.split.squad.questions[question].context]
        texts: dict[str, float] = {}
        for (begin, end), score in sorted(self.spans[question].items(), key=lambda item: (-item[1], item[0])):
            texts.setdefault(context[begin:end], score)
        return list(texts.items())[: self.n_best]

    def best(self, question: int) -> tuple[str, float]:
        """The best answer of a question, and its null odds; "" and inf if there is no span at all."""
        ranked = self.ranked(question)
        if not ranked:
            return "", math.inf
        return ranked[0][0], min(self.null[question].values()) - ranked[0][1]

    def evaluate(self, threshold: float = 0.0) -> dict[str, float]:
        """The official measures, under their official names, in percent, of the questions whose windows were
        added; no answer is given if the null odds are above ``threshold``.

        Returns:
            ``exact``, ``f1``, ``total``; the same with ``HasAns_`` and ``NoAns_`` of the questions with and
            without an answer, if there are some; ``best_exact``, ``best_f1`` and the thresholds
            ``best_exact_thresh``, ``best_f1_thresh`` that give them.
        """
        questions = [self.dataset.split.squad.questions[q] for q in sorted(self.null)]
        texts, odds = zip(*map(self.best, sorted(self.null)), strict=True)
        golds = [[answer.text for answer in question.answers] for question in questions]
        return evaluate(texts, golds, np.array(odds), threshold)

    def predictions(self, threshold: float = 0.0) -> tuple[dict, dict, dict]:
        """What the official tools read and write.

        Returns:
            Question id -> answer, "" for none; id -> the n best and no answer, whose text is "", each with
            ``text``, ``score`` and ``probability`` (among these); id -> null odds.
        """
        answers, n_best, null_odds = {}, {}, {}
        for q in sorted(self.null):
            name = self.dataset.split.squad.questions[q].id
            text, odds = self.best(q)
            answers[name] = "" if odds > threshold else text
            null_odds[name] = odds
            entries = [("", min(self.null[q].values())), *self.ranked(q)]
            entries.sort(key=lambda entry: -entry[1])
            weights = [math.exp(score - entries[0][1]) for _, score in entries]
            n_best[name] = [
                {"text": text, "score": score, "probability": weight / sum(weights)}
                for (text, score), weight in zip(entries, weights, strict=True)
            ]
        return answers, n_best, null_odds


@lru_cache(maxsize=1 << 16)
def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation, without articles, words one blank apart."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def scores(prediction: str, golds: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 (harmonic mean of precision and recall of the words), after :func:`normalise`, with
    the gold answer that suits each best; with none, no answer is right.

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
    below = min(np.nextafter(odds[0], -np.inf), odds[0] - np.finfo(np.float64).tiny)  # subnormals may be 0
    threshold = odds[surest - 1] if surest else below
    return float(totals[surest] / len(odds)), float(threshold)


def evaluate(
    answers: Sequence[str], golds: Sequence[Sequence[str]], null_odds: np.ndarray, threshold: float = 0.0
) -> dict[str, float]:
    """What :meth:`AnswerTable.evaluate` returns, of each question's best answer, to be given or not, its gold
    answers (none if it has no answer), and how much no answer is preferred."""
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
