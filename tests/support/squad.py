"""Files of SQuAD, and tokenised splits: words are tokens, w3 the dictionary's word 3."""

import numpy as np

from fs_plugins.data.vocabulary import Vocabulary
from fs_plugins.finetuning.squad.data import Answer, Question, Squad, TokenizedSquad, save_split
from tests.support import builders

CONTEXT = "Rollo ruled in 911. Rollo’s son ruled after Rollo."
WORDS = 60
DICTIONARY = builders.dictionary(WORDS)


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
    tokens, offsets = map(list, zip(*tokenised, strict=True))
    asked = [words(text)[0] for _, text, _, _ in questions]
    return TokenizedSquad(Squad(list(contexts), listed), tokens, offsets, asked, {})


def sentence(n, begin=0):
    return " ".join(f"w{i % WORDS}" for i in range(begin, begin + n))


def save(folder, split, *names):
    """A split under each name, as of the dictionary in the folder."""
    split.settings["dictionary"] = Vocabulary.read(folder).identity
    for name in names:
        with (folder / f"{name}.npz").open("wb") as file:
            save_split(split, file)


def squad_json(*questions, context=CONTEXT):
    """Returns the JSON of a file with one context."""
    paragraph = {"context": context, "qas": list(questions)}
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": [paragraph]}]}


def question(name="q1", answers=(("911", 15),), **more):
    listed = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": "When?", "answers": listed, "is_impossible": not listed, **more}
