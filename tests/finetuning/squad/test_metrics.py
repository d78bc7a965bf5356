"""Exact match and F1 against cases worked by hand, and the threshold against trying them all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fs_plugins.finetuning.squad.metrics import best_threshold, evaluate, scores


@pytest.mark.parametrize(
    ("prediction", "golds", "exact", "f1"),
    [
        ("Normans", ["the Normans"], 1, 1),
        ("in the 10th century", ["10th century"], 0, 4 / 5),  # precision 2/3, recall 1
        ("10th and 11th", ["10th and 11th centuries", "in the 10th"], 0, 6 / 7),  # of the better gold answer
        ("to to be", ["to be or not to be"], 0, 2 * 3 / (3 + 6)),  # words count as often as both have them
        ("France", ["Spain"], 0, 0),
        ("", [], 1, 1),  # no answer, and none is there
        ("France", [], 0, 0),
        ("the", [], 1, 1),  # nothing is left of it
        ("France", ["...", "France"], 1, 1),
        ("", ["...", "France"], 0, 0),  # an answer of which nothing is left does not count
        ("The  Quick,\tbrown-fox!", ["quick brownfox"], 1, 1),
        ("A. D. 79", ["d 79"], 1, 1),
        ("a.b", ["ab"], 1, 1),  # punctuation goes first, so that this is no article
        ("Theatre and Anthem", ["atre and them"], 0, 1 / 3),  # articles only as whole words
        ("«naïve» – 漢字", ["naïve 漢字"], 0, 2 / 5),  # ASCII punctuation only
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
