"""A tokenised SQuAD split made by hand: words are tokens, w3 the dictionary's word 3."""

import numpy as np

from fs_plugins.data.squad import Answer, Question, Squad
from fs_plugins.data.squad_tokens import Ragged, TokenizedSquad
from tests import builders

DICTIONARY = builders.dictionary(60)


def words(text):
    """Tokens and offsets of words between single blanks; an empty word is a token of white space alone."""
    ids, offsets, at = [], [], 0
    for word in text.split(" "):
        ids.append(DICTIONARY.index(word) if word else DICTIONARY.unk())
        offsets.append((at, at + len(word)))
        at += len(word) + 1
    return np.array(ids, np.int32), np.array(offsets, np.int32)


def split_of(contexts, questions):
    """``questions``: (id, text, index of its context, answers), each answer (first, last) words of the
    context, or an Answer."""
    tokenised = [words(context) for context in contexts]
    listed = []
    for name, text, context, answers in questions:
        own = []
        for answer in answers:
            if not isinstance(answer, Answer):
                begin, end = tokenised[context][1][answer[0], 0], tokenised[context][1][answer[1], 1]
                answer = Answer(contexts[context][begin:end], int(begin))
            own.append(answer)
        listed.append(Question(name, text, context, tuple(own)))
    return TokenizedSquad(
        Squad(list(contexts), listed),
        Ragged.of([tokens for tokens, _ in tokenised]),
        Ragged.of([offsets for _, offsets in tokenised]),
        Ragged.of([words(text)[0] for _, text, _, _ in questions]),
        {},
    )


def sentence(n, begin=0):
    return " ".join(f"w{i % 60}" for i in range(begin, begin + n))
