"""Best spans against enumeration, answers over the windows of a question, exact match and F1 against cases
worked by hand, and the threshold against trying them all."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fs_plugins.data.squad_answers import (
    AnswerTable,
    best_spans,
    best_threshold,
    evaluate,
    normalise,
    scores,
    window_answers,
)
from fs_plugins.data.squad_windows import SquadDataset, WindowSizes, make_windows
from tests.makers.squad import DICTIONARY, sentence, split_of


@settings(deadline=None, max_examples=150)
@given(T=st.integers(1, 9), longest=st.integers(1, 11), n=st.integers(1, 6), seed=st.integers(0, 999))
def test_best_spans_equal_enumeration(T, longest, n, seed):
    generator = torch.Generator().manual_seed(seed)
    start, end = torch.randn(2, 3, T, generator=generator)
    allowed = torch.rand(3, T, generator=generator) < 0.7
    start, end = (x.masked_fill(~allowed, -math.inf) for x in (start, end))
    kept = start.clone(), end.clone()
    scores, first, last = best_spans(start, end, longest, n)
    assert torch.equal(start, kept[0]) and torch.equal(end, kept[1])
    assert scores.shape == first.shape == last.shape == (3, min(n, T * min(longest, T)))
    for b in range(3):
        spans = [
            (float(start[b, s] + end[b, e]), s, e)
            for s in range(1, T)
            for e in range(s, min(T, s + longest))
            if allowed[b, s] and allowed[b, e]
        ]
        spans = sorted(spans, reverse=True)[:n]
        found = [
            (float(x), int(s), int(e))
            for x, s, e in zip(scores[b], first[b], last[b], strict=True)
            if x > -math.inf
        ]
        assert found == spans


def table(contexts, questions, sizes, **options):
    split = split_of(contexts, questions)
    return AnswerTable(SquadDataset(split, make_windows(split, sizes), sizes, DICTIONARY, "valid"), **options)


def test_a_question_of_several_windows_by_hand():
    """10 words, windows of 6 by steps of 4: words 0-5 and 4-9; the context begins at 4."""
    answers = table([sentence(10)], [("q", "w50", 0, [(4, 5)])], WindowSizes(11, 4, 8, 3), n_best=3)
    answers.add(np.array([[0, 1.5, 2.0, 8, 9], [0, 1.5, 1.0, 4, 4], [0, 1.5, 0.5, 5, 5]]))
    answers.add(np.array([[1, 2.5, 3.0, 4, 5], [1, 2.5, 2.5, 9, 9], [1, 2.5, -math.inf, 0, 0]]))
    # the same span, words 4 and 5, has 2.0 in the one and 3.0 in the other window
    assert answers.ranked(0) == [("w4 w5", 3.0), ("w9", 2.5), ("w0", 1.0)]
    assert answers.best(0) == ("w4 w5", 1.5 - 3.0)  # no answer: the least of both windows
    assert answers.windows == 2
    predictions, n_best, odds = answers.predictions()
    assert predictions == {"q": "w4 w5"} and odds == {"q": -1.5}
    assert answers.predictions(threshold=-2)[0] == {"q": ""}
    assert [entry["text"] for entry in n_best["q"]] == ["w4 w5", "w9", "", "w0"]
    assert sum(entry["probability"] for entry in n_best["q"]) == pytest.approx(1)
    ratio = n_best["q"][0]["probability"] / n_best["q"][2]["probability"]
    assert ratio == pytest.approx(math.exp(1.5))
    assert answers.evaluate()["exact"] == 100


def test_odds_at_the_threshold_leave_the_answer():
    """As the official evaluation has it, where no answer takes odds above the threshold."""
    questions = [("q", "w50", 0, [(0, 0)]), ("p", "w50", 0, [])]
    answers = table(["w1 w2"], questions, WindowSizes(16, 8, 8, 3))
    answers.add(np.array([[0, 2.5, 3.0, 4, 4], [1, 3.5, 3.0, 4, 4]]))  # null odds of -0.5 and 0.5
    for threshold, texts, exact in ((-0.5, ["w1", ""], 100), (0.5, ["w1", "w1"], 50), (-0.75, ["", ""], 50)):
        assert list(answers.predictions(threshold)[0].values()) == texts
        assert answers.evaluate(threshold)["exact"] == exact
    found = answers.evaluate()
    assert (found["best_exact"], found["best_exact_thresh"]) == (100, -0.5)


def test_no_span_at_all_is_no_answer():
    answers = table(["w1 w2"], [("q", "w50", 0, [])], WindowSizes(16, 8, 8, 3))
    answers.add(np.array([[0, -7.0, -math.inf, 0, 0]]))
    assert answers.best(0) == ("", math.inf)
    assert answers.predictions()[0] == {"q": ""} and answers.evaluate()["exact"] == 100


def test_the_order_of_windows_and_batches_changes_nothing():
    questions = [(f"q{i}", "w50", 0, [(i, i + 1)] if i % 3 else []) for i in range(7)]
    sizes = WindowSizes(11, 2, 8, 3)
    whole, parts = (table([sentence(20)], questions, sizes, n_best=4) for _ in range(2))
    data, generator = whole.dataset, torch.Generator().manual_seed(1)
    scores = torch.randn(len(data), 2, 11, generator=generator)

    def rows(indices):
        batch = data.collater([data[i] for i in indices])
        T = batch["allowed"].shape[1]
        both = scores[batch["id"], :, :T].masked_fill(~batch["allowed"][:, None], -math.inf)
        return window_answers(both[:, 0], both[:, 1], batch["id"], sizes.answer, 4)

    whole.add(rows(range(len(data))))
    for i in torch.randperm(len(data), generator=generator).tolist():
        parts.add(rows([i]))
    assert whole.predictions() == parts.predictions()
    assert whole.evaluate() == parts.evaluate()


def test_scores_that_are_no_numbers_are_an_error():
    found = table([sentence(4)], [("q", "w50", 0, [(1, 1)])], WindowSizes(20, 20, 4, 4))
    rows = np.array([[0, 1.0, 2.0, 5, 5]])
    found.add(rows)
    for column in (1, 2):
        broken = rows.copy()
        broken[0, column] = math.nan
        with pytest.raises(ValueError, match="1 windows of .* have scores that are no numbers"):
            found.add(broken)
    rows[0, 2] = -math.inf  # no span: that is allowed
    found.add(rows)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Quick,\tbrown-fox!", "quick brownfox"),
        ("an apple a day the", "apple day"),
        ("Theatre and Anthem", "theatre and anthem"),  # articles only as whole words
        ("a.b", "ab"),  # punctuation goes first, so that this is no article
        ("A. D. 79", "d 79"),
        ("$1,000.50", "100050"),
        ("«naïve» – 漢字", "«naïve» – 漢字"),  # ASCII punctuation only
        ("the", ""),
        (" \u00a0\n", ""),
    ],
)
def test_normalise(text, expected):
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("prediction", "golds", "exact", "f1"),
    [
        ("Normans", ["the Normans"], 1, 1),
        ("in the 10th century", ["10th century"], 0, 4 / 5),  # precision 2/3, recall 1
        ("10th and 11th", ["10th and 11th centuries", "in the 10th"], 0, 6 / 7),  # of the better gold answer
        ("Denmark, Iceland", ["Denmark, Iceland and Norway"], 0, 2 / 3),
        ("to to be", ["to be or not to be"], 0, 2 * 3 / (3 + 6)),  # words count as often as both have them
        ("France", ["Spain"], 0, 0),
        ("", ["France"], 0, 0),
        ("", [], 1, 1),  # no answer, and none is there
        ("France", [], 0, 0),
        ("the", [], 1, 1),  # nothing is left of it
        ("France", ["...", "France"], 1, 1),
        ("", ["...", "France"], 0, 0),  # an answer of which nothing is left does not count
        ("", ["a"], 1, 1),
    ],
)
def test_scores_by_hand(prediction, golds, exact, f1):
    assert scores(prediction, golds) == (exact, pytest.approx(f1))


GOLDS = [["France"], ["10th century"], [], []]
ANSWERS = ["france", "the 10th", "Rollo", "Norse"]


def test_evaluate_by_hand():
    odds = np.array([-3.0, 0.5, 0.4, 2.0])
    result = evaluate(ANSWERS, GOLDS, odds)  # the first is answered, the others are not
    assert (result["exact"], result["f1"]) == (75, 75)
    assert (result["HasAns_f1"], result["NoAns_f1"]) == (50, 100)
    assert (result["total"], result["HasAns_total"], result["NoAns_total"]) == (4, 2, 2)
    assert (result["best_exact"], result["best_exact_thresh"]) == (75, -3)
    # answering the second too gains 2/3 and loses the third's 1
    assert (result["best_f1"], result["best_f1_thresh"]) == (75, -3)
    odds[2] = 0.6
    result = evaluate(ANSWERS, GOLDS, odds, threshold=0.55)
    assert result["f1"] == result["best_f1"] == pytest.approx(100 * (1 + 2 / 3 + 2) / 4)
    assert result["best_f1_thresh"] == 0.5


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 1.0]), st.integers(-3, 3)),
        min_size=1,
        max_size=12,
    )
)
def test_best_threshold_equals_trying_all(rows):
    answered, abstained, odds = (np.array(column, dtype=float) for column in zip(*rows, strict=True))

    def score(threshold):
        return np.where(odds > threshold, abstained, answered).mean()

    best, at = best_threshold(answered, abstained, odds)
    assert best == pytest.approx(max(score(t) for t in np.arange(-4, 4, 0.5)))
    assert score(at) == pytest.approx(best)
