"""A batch of three sentences: two masks, none, and one mask without an end of sentence; and a model."""

import torch
from fairseq.logging import metrics

from tests.support import builders

WORDS = builders.dictionary(20)
SENTENCES = [
    builders.sentence(WORDS, 6, [2, 3], seed=1),
    builders.sentence(WORDS, 2, [], seed=2),
    builders.sentence(WORDS, 9, [1], seed=3, end=False),
]
BATCH = builders.sample(WORDS, SENTENCES)


def logged(criterion, *logs) -> dict:
    """What fairseq-train logs of the logs of an update's batches."""
    with metrics.aggregate() as found:
        criterion.reduce_metrics([*logs])
    return dict(found.get_smoothed_values())


class Told(torch.nn.Module):
    """A model that gives the outputs that it is told, one for each input, to calls with these options."""

    def __init__(self, outputs, **options):
        super().__init__()
        self.outputs = torch.nn.Parameter(torch.as_tensor(outputs, dtype=torch.float32))
        self.options = options

    def forward(self, src_tokens, **options):
        assert options == self.options
        return self.outputs[src_tokens], {}
