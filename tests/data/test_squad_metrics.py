"""Exact match and F1 against cases worked by hand, and the threshold against trying them all."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fs_plugins.data import squad_metrics


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
    assert squad_metrics.normalise(text) == expected


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
    assert squad_metrics.scores(prediction, golds) == (exact, pytest.approx(f1))


GOLDS = {"a": ["France"], "b": ["10th century"], "c": [], "d": []}
ANSWERS = {"a": "france", "b": "the 10th", "c": "Rollo", "d": "Norse"}


def test_evaluate_by_hand_without_odds():
    result = squad_metrics.evaluate(ANSWERS, GOLDS)
    assert result == pytest.approx(
        {
            **{"exact": 25, "f1": 100 * (1 + 2 / 3) / 4, "total": 4},
            **{"HasAns_exact": 50, "HasAns_f1": 100 * (1 + 2 / 3) / 2, "HasAns_total": 2},
            **{"NoAns_exact": 0, "NoAns_f1": 0, "NoAns_total": 2},
        }
    )


def test_evaluate_by_hand_with_odds():
    odds = {"a": -3.0, "b": 0.5, "c": 0.4, "d": 2.0}
    result = squad_metrics.evaluate(ANSWERS, GOLDS, odds)  # a is answered; b, c, d are not
    assert (result["exact"], result["f1"]) == (75, 75)
    assert (result["HasAns_f1"], result["NoAns_f1"]) == (50, 100)
    assert (result["best_exact"], result["best_exact_thresh"]) == (75, -3)
    # answering b too gains 2/3 and loses c's 1
    assert (result["best_f1"], result["best_f1_thresh"]) == (75, -3)
    odds["c"] = 0.6
    result = squad_metrics.evaluate(ANSWERS, GOLDS, odds, threshold=0.55)
    assert result["f1"] == result["best_f1"] == pytest.approx(100 * (1 + 2 / 3 + 2) / 4)
    assert result["best_f1_thresh"] == 0.5


def test_abstaining_from_everything_may_be_best():
    score, threshold = squad_metrics.best_threshold(np.zeros(3), np.ones(3), np.array([1.0, -2.0, 5.0]))
    assert score == 1 and threshold < -2


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

    best, at = squad_metrics.best_threshold(answered, abstained, odds)
    assert best == pytest.approx(max(score(t) for t in np.arange(-4, 4, 0.5)))
    assert score(at) == pytest.approx(best)


def test_infinite_odds_are_never_answered():
    result = squad_metrics.evaluate({"a": "", "b": "x"}, {"a": ["y"], "b": ["x"]}, {"a": math.inf, "b": 0.0})
    assert result["exact"] == 50


def test_missing_predictions_are_an_error():
    with pytest.raises(ValueError, match="1 of 4 questions have no prediction: d"):
        squad_metrics.evaluate({name: "" for name in "abc"}, GOLDS)
    with pytest.raises(ValueError, match="4 of 4 questions have no null odds"):
        squad_metrics.evaluate(ANSWERS, GOLDS, {})
    with pytest.raises(ValueError, match="no questions"):
        squad_metrics.evaluate({}, {})
