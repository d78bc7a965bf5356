"""Some of the items of a dataset."""

import numpy as np
from fairseq.data import BaseWrapperDataset, FairseqDataset


class ChosenDataset(BaseWrapperDataset):
    """Gives the items of a dataset with these numbers, [n] int64, in their order."""

    def __init__(self, dataset: FairseqDataset, numbers: np.ndarray):
        super().__init__(dataset)
        self.numbers = numbers

    def __getitem__(self, index):
        return self.dataset[int(self.numbers[index])]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def sizes(self) -> np.ndarray:
        return np.asarray(self.dataset.sizes)[self.numbers]

    def num_tokens(self, index):
        return self.sizes[index]

    def size(self, index):
        return self.sizes[index]

    def ordered_indices(self) -> np.ndarray:
        return np.arange(len(self))
