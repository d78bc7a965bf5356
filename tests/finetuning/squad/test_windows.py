"""Windows against enumeration; layout, labels and batches."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fs_plugins.finetuning.squad.data import Answer
from fs_plugins.finetuning.squad.windows import SquadDataset, WindowSizes, answer_tokens, make_windows
from tests.support.squad import DICTIONARY, sentence, split_of, words

BOS, PAD, EOS = DICTIONARY.bos(), DICTIONARY.pad(), DICTIONARY.eos()


@settings(deadline=None, max_examples=200)
@given(*(st.integers(1, n) for n in (60, 9, 20, 25)), st.tuples(st.integers(0, 59), st.integers(0, 6)))
def test_windows_cover_the_context_and_labels_point_at_the_answer(length, question, room, stride, answer):
    first = answer[0] % length
    last = min(first + answer[1], length - 1)
    split = split_of([sentence(length)], [("q", sentence(question), 0, [(first, last)])])
    sizes = WindowSizes(question + 4 + room, stride, 64, 1)
    windows = make_windows(split, sizes)
    covered = [list(range(b, e)) for b, e in zip(windows.begin, windows.end, strict=True)]
    assert sorted({i for window in covered for i in window}) == list(range(length))
    assert all(len(window) <= room for window in covered) and covered[-1][-1] == length - 1
    steps = np.diff(windows.begin)
    assert (steps == min(stride, room)).all()
    data = SquadDataset(split, sizes, DICTIONARY)
    for w, window in enumerate(covered):
        item = data[w]
        context = words(split.squad.contexts[0])[0][window]
        asked = words(split.squad.questions[0].text)[0]
        assert item["tokens"].tolist() == [BOS, *asked, EOS, EOS, *context, EOS]
        assert data.size(w) == len(item["tokens"]) <= sizes.window
        assert item["allowed"].tolist() == [True] + [False] * (question + 2) + [True] * len(window) + [False]
        if first in window and last in window:
            begin, end = data.character_span(w, *item["label"].tolist())
            assert split.squad.contexts[0][begin:end] == split.squad.questions[0].answers[0].text
        else:
            assert item["label"].tolist() == [0, 0]


def test_answer_tokens():
    """White space at the edges is not of the answer; parts of tokens are the whole tokens."""
    _, offsets = words("w0 w1 w2")
    answers = (("w1", 3), ("w1 w2", 3), (" w1 ", 2), ("1 w", 4), ("w9", 99))
    assert [answer_tokens(offsets, *answer) for answer in answers] == [(1, 1), (1, 2), (1, 1), (1, 2), None]
    assert answer_tokens(words("w0   w1")[1], "   w1", 2) == (3, 3)
    assert answer_tokens(np.array([[0, 2], [2, 4], [4, 6]]), "xy", 2) == (1, 1)  # no blank between them


def test_white_space_alone_is_no_answer():
    split = split_of(["w1  w2"], [("q", "w5", 0, [(0, 2)])])
    item = SquadDataset(split, WindowSizes(32, 8, 8, 3), DICTIONARY)[0]
    assert item["allowed"].tolist() == [True, False, False, False, True, False, True, False]
    assert item["label"].tolist() == [4, 6]


def test_long_questions_are_cut_or_refused():
    split = split_of([sentence(20)], [("long", sentence(12), 0, [(3, 4)]), ("short", "w1", 0, [])])
    sizes = WindowSizes(30, 8, 5, 4)
    found = SquadDataset(split, sizes, DICTIONARY)[0]["tokens"].tolist()
    assert found[:8] == [BOS, *words(sentence(5))[0], EOS, EOS]
    with pytest.raises(ValueError, match="long .* 12 .* 4 .* 20"):
        make_windows(split, WindowSizes(20, 8, 64, 5))
    make_windows(split, WindowSizes(20, 8, 64, 4))
    with pytest.raises(ValueError, match="stride=0"):  # with which there would be no end
        WindowSizes(20, 0)


def test_unknown_answers_train_nothing_but_are_evaluated():
    split = split_of([sentence(9)], [("odd", "w1", 0, [Answer("elsewhere", -1)]), ("q", "w2", 0, [(1, 2)])])
    sizes = WindowSizes(32, 8, 8, 4)
    assert make_windows(split, sizes).labels.tolist() == [[-1, -1], [5, 6]]
    assert [SquadDataset(split, sizes, DICTIONARY)[i]["id"] for i in range(2)] == [0, 1]
    training = SquadDataset(split, sizes, DICTIONARY, training=True)
    assert len(training) == 1 and training[0]["id"] == 1
    assert training.sizes.tolist() == [training.size(0)] == [len(training[0]["tokens"])]


def test_batches():
    asked = [(f"q{i}", sentence(1 + i % 3), i % 2, [(i % 5, i % 5 + 1)]) for i in range(40)]
    split = split_of([sentence(9), sentence(30, 10)], asked)
    sizes = WindowSizes(24, 6, 8, 4)
    for options in ({}, {"training": True, "seed": 3}):
        data = SquadDataset(split, sizes, DICTIONARY, **options)
        order = data.ordered_indices()
        assert sorted(order) == list(range(len(data)))
    other = SquadDataset(split, sizes, DICTIONARY, training=True, seed=4).ordered_indices()
    assert order.tolist() == data.ordered_indices().tolist() != other.tolist()
    batch = data.collater([data[i] for i in (0, 5, 20)])
    tokens, lengths = batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"]
    assert batch["allowed"].shape == tokens.shape and batch["allowed"].dtype == torch.bool
    for row, i in enumerate((0, 5, 20)):
        n = lengths[row]
        assert torch.equal(tokens[row, :n], data[i]["tokens"]) and (tokens[row, n:] == PAD).all()
        assert not batch["allowed"][row, n:].any()
    assert batch["ntokens"] == lengths.sum() and batch["nsentences"] == 3
