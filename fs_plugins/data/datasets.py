"""Datasets around those of fairseq: some of their items, their tokens repeated."""

import numpy as np
from fairseq.data import BaseWrapperDataset, FairseqDataset
from torch import Tensor


class ResizedDataset(BaseWrapperDataset):
    """A dataset whose items have other ``sizes`` than those that it wraps; in their order."""

    def num_tokens(self, index):
        return self.sizes[index]

    size = num_tokens
    ordered_indices = FairseqDataset.ordered_indices


class ChosenDataset(ResizedDataset):
    """Gives the items of a dataset with these numbers, [n] int64, in their order."""

    def __init__(self, dataset: FairseqDataset, numbers: np.ndarray):
        super().__init__(dataset)
        self.numbers = numbers

    def __getitem__(self, index):
        return self.dataset[int(self.numbers[index])]

    def prefetch(self, indices):
        self.dataset.prefetch(self.numbers[indices])

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def sizes(self) -> np.ndarray:
        return np.asarray(self.dataset.sizes)[self.numbers]


def corrupted_tokens(target: Tensor, k: int, pad: int) -> Tensor:
    """Returns which tokens have lost their meaning, as their k copies are all masked (appendix C), [B, T];
    ``target`` [B, k T] int64 has the original token where a copy is masked, else ``pad``."""
    return target.ne(pad).unflatten(-1, (-1, k)).all(-1)


class RepeatTokensDataset(ResizedDataset):
    """Items of token tensors with every token k times in a row (Repeated MLM, section 3.1)."""

    def __init__(self, dataset, k: int):
        super().__init__(dataset)
        self.k = k

    def __getitem__(self, index) -> Tensor:
        return self.dataset[index].repeat_interleave(self.k)

    @property
    def sizes(self) -> np.ndarray:
        return np.asarray(self.dataset.sizes) * self.k


class RepeatInputDataset(BaseWrapperDataset):
    """Batches of a classification dataset with every token of ``net_input.src_tokens`` k times in a row."""

    def __init__(self, dataset, k: int):
        super().__init__(dataset)
        self.k = k

    def collater(self, samples):
        batch = self.dataset.collater(samples)
        if not batch:
            return batch
        net_input = dict(batch["net_input"])
        net_input["src_tokens"] = net_input["src_tokens"].repeat_interleave(self.k, dim=1)
        net_input["src_lengths"] = net_input["src_lengths"] * self.k
        return {**batch, "net_input": net_input, "ntokens": batch["ntokens"] * self.k}

    def num_tokens(self, index):
        """Counts the copies, for --max-tokens; ``size`` and filtering stay without, for --max-positions /
        k."""
        return self.dataset.num_tokens(index) * self.k

    def batch_by_size(self, *args, **kwargs):
        return FairseqDataset.batch_by_size(self, *args, **kwargs)
