"""Best spans against enumeration, and answers over the windows of a question."""

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fs_plugins.finetuning.squad.answers import AnswerTable, window_answers
from fs_plugins.finetuning.squad.windows import SquadDataset, WindowSizes
from tests.support.squad import DICTIONARY, sentence, split_of


@settings(deadline=None, max_examples=150)
@given(T=st.integers(1, 9), longest=st.integers(1, 11), seed=st.integers(0, 999))
def test_best_spans_equal_enumeration(T, longest, seed):
    generator = torch.Generator().manual_seed(seed)
    given = torch.randn(3, T, 2, generator=generator)
    allowed = torch.rand(3, T, generator=generator) < 0.7
    kept, (start, end) = given.clone(), given.unbind(2)
    answers = window_answers(given, allowed, longest)
    assert torch.equal(given, kept) and answers.shape == (3, 4)
    for b in range(3):
        null = float(start[b, 0] + end[b, 0]) if allowed[b, 0] else -math.inf
        assert answers[b, 0] == null
        pairs = ((s, e) for s in range(1, T) for e in range(s, min(T, s + longest)))
        spans = [(float(start[b, s] + end[b, e]), s, e) for s, e in pairs if allowed[b, s] and allowed[b, e]]
        found = tuple(answers[b, 1:].tolist())
        assert found == max(spans) if spans else found[0] == -math.inf


def table(contexts, questions, sizes, *rows):
    """Of windows 0, 1, ...: each [4]."""
    dataset = SquadDataset(split_of(contexts, questions), sizes, DICTIONARY)
    return AnswerTable(dataset, np.arange(len(rows)), np.array(rows))


def test_a_question_of_several_windows_by_hand():
    """10 words, windows of 6 by steps of 4: words 0-5 and 4-9; the context begins at 4."""
    first, second = [1.5, 2.0, 8, 9], [2.5, 3.0, 4, 5]
    answers = table([sentence(10)], [("q", "w50", 0, [(4, 5)])], WindowSizes(11, 4, 8, 3), first, second)
    # the same span, words 4 and 5, has 2.0 in the one and 3.0 in the other window
    assert answers.best[0] == ("w4 w5", 1.5 - 3.0)  # no answer: the least of both windows
    assert answers.predictions() == {"q": "w4 w5"} and answers.predictions(-2) == {"q": ""}
    assert answers.evaluate()["exact"] == 100
    equal = table([sentence(10)], [("q", "w50", 0, [])], WindowSizes(11, 4, 8, 3), [1.5, 3.0, 4, 4], second)
    assert equal.best[0][0] == "w0", "of equal ones the first in the context"


def test_odds_at_the_threshold_leave_the_answer():
    """As the official evaluation has it, where no answer takes odds above the threshold."""
    questions = [("q", "w50", 0, [(0, 0)]), ("p", "w50", 0, [])]
    rows = [2.5, 3.0, 4, 4], [3.5, 3.0, 4, 4]  # null odds of -0.5 and 0.5
    answers = table(["w1 w2"], questions, WindowSizes(16, 8, 8, 3), *rows)
    for threshold, texts, exact in ((-0.5, ["w1", ""], 100), (0.5, ["w1", "w1"], 50), (-0.75, ["", ""], 50)):
        assert list(answers.predictions(threshold).values()) == texts
        assert answers.evaluate(threshold)["exact"] == exact
    found = answers.evaluate()
    assert (found["best_exact"], found["best_exact_thresh"]) == (100, -0.5)
    answers = table(["w1 w2"], questions[1:], WindowSizes(16, 8, 8, 3), [-7.0, -math.inf, 0, 0])  # no span
    assert answers.best[0] == ("", math.inf) and answers.predictions() == {"p": ""}
    assert answers.evaluate()["exact"] == 100
