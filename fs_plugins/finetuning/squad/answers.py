"""Answers of scores of tokens: the best spans of each window, over the windows of each question.

The score of a span is the sum of the scores of its first and its last token; that of no answer is the sum of
both at ``<s>`` (Devlin et al., 2019). A question's best answer is the best span of all its windows. The score
of no answer is that of the window where it is least; ``null odds`` are this less the score of the best span.
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from fs_plugins.finetuning.squad.metrics import evaluate
from fs_plugins.finetuning.squad.windows import SquadDataset


def window_answers(scores: Tensor, allowed: Tensor, longest: int, n: int = 1) -> Tensor:
    """Returns the n best spans of each window in descending order, [B, n, 4] float64: score of no answer,
    score of the span, its first and its last token; scores of -inf where a window has fewer than n.

    Args:
        scores: [B, T, 2] of each token as the first and as the last one of the answer.
        allowed: [B, T] which tokens can be; the place of ``<s>`` is in no span.
        longest: most tokens of a span.
    """
    start, end = scores.float().masked_fill(~allowed[:, :, None], -math.inf).unbind(2)
    null = start[:, 0] + end[:, 0]
    T = start.shape[1]
    longest = min(longest, T)
    ends = pad(end, (0, longest - 1), value=-math.inf).unfold(1, longest, 1)
    spans = start[:, :, None] + ends  # [B, T, longest]: first token, tokens after it
    spans[:, 0] = -math.inf
    spans = spans.flatten(1)
    spans = pad(spans, (0, max(0, n - spans.shape[1])), value=-math.inf)
    best, which = spans.topk(n, dim=1)
    first = which // longest
    last = (first + which % longest).clamp(max=T - 1)
    return torch.stack([x.double() for x in (null[:, None].expand_as(best), best, first, last)], dim=-1)


class AnswerTable:
    """The answers that windows give to their questions.

    Args:
        ids: [N] of the windows, in any order.
        rows: [N, n, 4] of :func:`window_answers`.
    """

    def __init__(self, dataset: SquadDataset, ids: np.ndarray, rows: np.ndarray):
        self.dataset, self.n_best = dataset, rows.shape[1]
        self.null: dict[int, float] = {}  # question -> score of no answer
        self.spans: dict[int, dict[tuple[int, int], float]] = {}  # question -> characters -> score
        for window, spans in zip(ids.tolist(), rows.tolist(), strict=True):
            question = int(dataset.windows.question[window])
            self.null[question] = min(spans[0][0], self.null.get(question, math.inf))
            best = self.spans.setdefault(question, {})
            for _, score, first, last in spans:
                if score > -math.inf:
                    span = dataset.character_span(window, int(first), int(last))
                    best[span] = max(score, best.get(span, -math.inf))

    def ranked(self, question: int) -> list[tuple[str, float]]:
        """Returns the n best answers of a question with their scores, of several with one text the best."""
        context = self.dataset.split.squad.contexts[self.dataset.split.squad.questions[question].context]
        texts: dict[str, float] = {}
        for (begin, end), score in sorted(self.spans[question].items(), key=lambda item: (-item[1], item[0])):
            texts.setdefault(context[begin:end], score)
        return list(texts.items())[: self.n_best]

    def best(self, question: int) -> tuple[str, float]:
        """Returns the best answer of a question, and its null odds; "" and inf if there is no span at all."""
        ranked = self.ranked(question)
        return (ranked[0][0], self.null[question] - ranked[0][1]) if ranked else ("", math.inf)

    def evaluate(self, threshold: float = 0.0) -> dict[str, float]:
        """Returns the metrics (:func:`fs_plugins.finetuning.squad.metrics.evaluate`) of the questions whose
        windows are here."""
        questions = [self.dataset.split.squad.questions[q] for q in sorted(self.null)]
        texts, odds = zip(*map(self.best, sorted(self.null)), strict=True)
        golds = [[answer.text for answer in question.answers] for question in questions]
        return evaluate(texts, golds, np.array(odds), threshold)

    def files(self, threshold: float = 0.0) -> dict[str, dict]:
        """Returns what the official tools read and write: by the name of the file, question id ->

        ``predictions``: the answer, "" for none; ``nbest_predictions``: the n best and no answer, whose text
        is "", each with ``text``, ``score`` and ``probability`` (among these); ``null_odds``;
        ``best_answers``: the best answer even if none is given.
        """
        files = {name: {} for name in ("predictions", "nbest_predictions", "null_odds", "best_answers")}
        for q in sorted(self.null):
            text, odds = self.best(q)
            entries = [("", self.null[q]), *self.ranked(q)]
            entries.sort(key=lambda entry: -entry[1])
            weights = [math.exp(score - entries[0][1]) for _, score in entries]
            n_best = [
                {"text": answer, "score": score, "probability": weight / sum(weights)}
                for (answer, score), weight in zip(entries, weights, strict=True)
            ]
            contents = ("" if odds > threshold else text, n_best, odds, text)
            for file, content in zip(files.values(), contents, strict=True):
                file[self.dataset.split.squad.questions[q].id] = content
        return files
