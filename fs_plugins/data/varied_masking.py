"""Masking probabilities that vary from sample to sample."""

import numpy as np
from fairseq.data import BaseWrapperDataset, MaskTokensDataset


class VariedMaskingDataset(BaseWrapperDataset):
    """Gives the items of a :class:`MaskTokensDataset`, each masked with a probability of its own.

    It is uniform between p - spread and p + spread, for the p of the dataset, and depends on the seed, the
    epoch and the item's number alone, so that inputs and targets are masked alike.
    """

    def __init__(self, dataset: MaskTokensDataset, spread: float):
        super().__init__(dataset)
        self.mean, self.spread = dataset.mask_prob, spread

    def __getitem__(self, index):
        drawn = np.random.default_rng((self.dataset.seed, self.dataset.epoch, index)).uniform(-1, 1)
        self.dataset.mask_prob = self.mean + self.spread * drawn
        return self.dataset[index]
