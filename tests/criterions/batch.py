"""A batch of three sentences: two masks, none, and one mask without an end of sentence."""

from tests.support import builders

WORDS = builders.dictionary(20)
SENTENCES = [
    builders.sentence(WORDS, 6, [2, 3], seed=1),
    builders.sentence(WORDS, 2, [], seed=2),
    builders.sentence(WORDS, 9, [1], seed=3, end=False),
]
BATCH = builders.sample(WORDS, SENTENCES)
