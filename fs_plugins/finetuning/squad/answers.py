"""Answers of scores of tokens: the best span of each window, over the windows of each question.

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


def window_answers(scores: Tensor, allowed: Tensor, longest: int) -> Tensor:
    """Returns the best span of each window, [B, 4] float64: score of no answer, score of the span, its first
    and its last token; the span's score is -inf where a window has none.

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
    best, which = spans.flatten(1).max(1)
    first = which // longest
    last = (first + which % longest).clamp(max=T - 1)
    return torch.stack([x.double() for x in (null, best, first, last)], dim=-1)


class AnswerTable:
    """The answers that windows give to their questions.

    Args:
        ids: [N] of the windows, in any order.
        rows: [N, 4] of :func:`window_answers`.
    """

    def __init__(self, dataset: SquadDataset, ids: np.ndarray, rows: np.ndarray):
        self.questions, contexts = dataset.split.squad.questions, dataset.split.squad.contexts
        nulls: dict[int, float] = {}  # question -> score of no answer
        spans: dict[int, tuple] = {}  # question -> -score, begin and end of the best span in the context
        for window, (null, score, first, last) in zip(ids.tolist(), rows.tolist(), strict=True):
            question = int(dataset.windows.question[window])
            nulls[question] = min(null, nulls.get(question, math.inf))
            if score > -math.inf:
                span = (-score, *dataset.character_span(window, int(first), int(last)))
                spans[question] = min(span, spans.get(question, span))
        self.best: dict[int, tuple[str, float]] = {}  # question -> best answer and its null odds
        for question, null in sorted(nulls.items()):
            text, odds = "", math.inf
            if question in spans:
                negative, begin, end = spans[question]
                text, odds = contexts[self.questions[question].context][begin:end], null + negative
            self.best[question] = text, odds

    def evaluate(self, threshold: float = 0.0) -> dict[str, float]:
        """Returns the metrics (:func:`fs_plugins.finetuning.squad.metrics.evaluate`) of the questions whose
        windows are here."""
        texts, odds = zip(*self.best.values(), strict=True)
        golds = [[answer.text for answer in self.questions[q].answers] for q in self.best]
        return evaluate(texts, golds, np.array(odds), threshold)

    def predictions(self, threshold: float = 0.0) -> dict[str, str]:
        """Returns {question id: the answer, "" for none}, as the official script reads it."""
        return {
            self.questions[q].id: "" if odds > threshold else text for q, (text, odds) in self.best.items()
        }
