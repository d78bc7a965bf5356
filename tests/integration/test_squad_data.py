"""The real SQuAD: scores that point at the gold answers have to give them back, to the letter."""

import argparse
import dataclasses
import math

import prepare_squad
import pytest
import torch
from fairseq.data import Dictionary

from fs_plugins.data.squad import read_squad
from fs_plugins.data.squad_answers import AnswerTable, window_answers
from fs_plugins.data.squad_windows import SquadDataset, WindowSizes, answer_tokens, make_windows


@pytest.fixture(scope="module")
def valid(shared):
    """devsplit-dev, in GPT-2's BPE."""
    file, bpe = shared("data", "squad2", "devsplit-dev-v2.0.json.gz"), shared("data", "gpt2_bpe")
    flags = {"data": None, "dictionary": bpe / "dict.txt", "bpe": [str(bpe)], "allow_unknown": False}
    encoder = prepare_squad.encoder_of(argparse.Namespace(**flags))
    dictionary = Dictionary.load(str(bpe / "dict.txt"))
    dictionary.add_symbol("<mask>")
    return prepare_squad.tokenise(read_squad([file]), encoder, {}), dictionary


def oracle(split, dictionary, sizes):
    """The answers of a model that gives 1 to the first and the last token of the label, and 0 to all else."""
    dataset = SquadDataset(split, make_windows(split, sizes), sizes, dictionary, "valid")
    table, order = AnswerTable(dataset), dataset.ordered_indices()
    for i in range(0, len(order), 64):
        batch = dataset.collater([dataset[j] for j in order[i : i + 64]])
        scores = torch.zeros(2, *batch["allowed"].shape)
        for column in (0, 1):
            scores[column].scatter_(1, batch["target"][:, column : column + 1], 1.0)
        start, end = scores.masked_fill(~batch["allowed"], -math.inf)
        table.add(window_answers(start, end, batch["id"], sizes.answer))
    return table


@pytest.mark.parametrize("sizes", [WindowSizes(), WindowSizes(100, 32)], ids=["512", "100"])
def test_every_gold_answer_comes_back(valid, sizes):
    """But those that are longer than is looked for, and those that begin or end within a token."""
    split, dictionary = valid
    squad, lost, answers = split.squad, 0, 0
    for rank in range(max(len(question.answers) for question in squad.questions)):
        with_rank = [
            dataclasses.replace(question, answers=question.answers[rank : rank + 1])
            for question in squad.questions
        ]
        chosen = dataclasses.replace(split, squad=dataclasses.replace(squad, questions=with_rank))
        table = oracle(chosen, dictionary, sizes)
        predictions, _, _ = table.predictions()
        for question in with_rank:
            answers += 1
            text = question.answers[0].text if question.answers else ""
            if predictions[question.id] == text:
                continue
            lost += 1
            (answer,) = question.answers
            offsets = split.context_offsets[question.context]
            first, last = answer_tokens(offsets, answer.text, answer.start)
            within = offsets[first, 0] < answer.start or offsets[last, 1] > answer.start + len(answer.text)
            assert within or last - first + 1 > sizes.answer, (question.id, text, predictions[question.id])
    assert answers > 10_000 and lost <= 0.003 * answers
