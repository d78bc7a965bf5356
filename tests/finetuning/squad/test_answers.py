"""Best spans against enumeration, and answers over the windows of a question."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fs_plugins.finetuning.squad.answers import AnswerTable, window_answers
from fs_plugins.finetuning.squad.windows import SquadDataset, WindowSizes
from tests.support.squad import DICTIONARY, sentence, split_of


@settings(deadline=None, max_examples=150)
@given(T=st.integers(1, 9), longest=st.integers(1, 11), n=st.integers(1, 6), seed=st.integers(0, 999))
def test_best_spans_equal_enumeration(T, longest, n, seed):
    generator = torch.Generator().manual_seed(seed)
    given = torch.randn(3, T, 2, generator=generator)
    allowed = torch.rand(3, T, generator=generator) < 0.7
    kept, (start, end) = given.clone(), given.unbind(2)
    answers = window_answers(given, allowed, longest, n)
    assert torch.equal(given, kept) and answers.shape == (3, n, 4)
    for b in range(3):
        null = float(start[b, 0] + end[b, 0]) if allowed[b, 0] else -math.inf
        assert answers[b, :, 0].tolist() == [null] * n
        spans = [
            (float(start[b, s] + end[b, e]), s, e)
            for s in range(1, T)
            for e in range(s, min(T, s + longest))
            if allowed[b, s] and allowed[b, e]
        ]
        spans = sorted(spans, reverse=True)[:n]
        assert [tuple(span) for span in answers[b, :, 1:].tolist() if span[0] > -math.inf] == spans


def table(contexts, questions, sizes, *rows):
    """Of windows 0, 1, ...: each [n, 4]."""
    dataset = SquadDataset(split_of(contexts, questions), sizes, DICTIONARY)
    return AnswerTable(dataset, np.arange(len(rows)), np.array(rows))


def test_a_question_of_several_windows_by_hand():
    """10 words, windows of 6 by steps of 4: words 0-5 and 4-9; the context begins at 4."""
    first = [[1.5, 2.0, 8, 9], [1.5, 1.0, 4, 4], [1.5, 0.5, 5, 5]]
    second = [[2.5, 3.0, 4, 5], [2.5, 2.5, 9, 9], [2.5, -math.inf, 0, 0]]
    answers = table([sentence(10)], [("q", "w50", 0, [(4, 5)])], WindowSizes(11, 4, 8, 3), first, second)
    # the same span, words 4 and 5, has 2.0 in the one and 3.0 in the other window
    assert answers.ranked(0) == [("w4 w5", 3.0), ("w9", 2.5), ("w0", 1.0)]
    assert answers.best(0) == ("w4 w5", 1.5 - 3.0)  # no answer: the least of both windows
    files = answers.files()
    assert files["predictions"] == files["best_answers"] == {"q": "w4 w5"}
    assert files["null_odds"] == {"q": -1.5}
    below = answers.files(threshold=-2)
    assert below["predictions"] == {"q": ""} and below["best_answers"] == {"q": "w4 w5"}
    n_best = files["nbest_predictions"]["q"]
    assert [entry["text"] for entry in n_best] == ["w4 w5", "w9", "", "w0"]
    assert sum(entry["probability"] for entry in n_best) == pytest.approx(1)
    assert n_best[0]["probability"] / n_best[2]["probability"] == pytest.approx(math.exp(1.5))
    assert answers.evaluate()["exact"] == 100


def test_odds_at_the_threshold_leave_the_answer():
    """As the official evaluation has it, where no answer takes odds above the threshold."""
    questions = [("q", "w50", 0, [(0, 0)]), ("p", "w50", 0, [])]
    rows = [[2.5, 3.0, 4, 4]], [[3.5, 3.0, 4, 4]]  # null odds of -0.5 and 0.5
    answers = table(["w1 w2"], questions, WindowSizes(16, 8, 8, 3), *rows)
    for threshold, texts, exact in ((-0.5, ["w1", ""], 100), (0.5, ["w1", "w1"], 50), (-0.75, ["", ""], 50)):
        assert list(answers.files(threshold)["predictions"].values()) == texts
        assert answers.evaluate(threshold)["exact"] == exact
    found = answers.evaluate()
    assert (found["best_exact"], found["best_exact_thresh"]) == (100, -0.5)
    answers = table(["w1 w2"], questions[1:], WindowSizes(16, 8, 8, 3), [[-7.0, -math.inf, 0, 0]])  # no span
    assert answers.best(0) == ("", math.inf) and answers.files()["predictions"] == {"p": ""}
    assert answers.evaluate()["exact"] == 100
