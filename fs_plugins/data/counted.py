"""Batches whose sizes after the expansion are known before they are on a GPU."""

import numpy as np
from fairseq.data import BaseWrapperDataset, Dictionary


class CountedDataset(BaseWrapperDataset):
    """Batches of ``masked_lm`` with ``counts``, [B, 3] int64 in NumPy, which stay in the CPU's memory.

    Of each sentence they are its tokens, with the ``</s>`` that ExLM appends if it has none at its end; how
    many of these it expands; and whether it starts with ``<s>``. So a step needs no sync for its sizes.
    """

    def __init__(self, dataset, symbols: Dictionary):
        super().__init__(dataset)
        self.bos, self.eos, self.pad = symbols.bos(), symbols.eos(), symbols.pad()

    def collater(self, samples):
        batch = self.dataset.collater(samples)
        if not batch:
            return batch
        tokens, targets = (t.numpy() for t in (batch["net_input"]["src_tokens"], batch["target"]))
        originals, lengths = np.where(targets != self.pad, targets, tokens), (tokens != self.pad).sum(1)
        expanded = (targets != self.pad) | (originals == self.bos) | (originals == self.eos)
        appended = originals[np.arange(len(tokens)), lengths - 1] != self.eos
        counts = lengths + appended, (expanded & (tokens != self.pad)).sum(1) + appended
        return {**batch, "counts": np.stack([*counts, originals[:, 0] == self.bos], 1)}
