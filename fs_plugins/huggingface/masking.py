"""Masking as fairseq's ``masked_lm`` task does it, for transformers' Trainer."""

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence


class MaskingCollator:
    """Joins rows with ``input_ids`` to a batch: of each row the share ``mask_prob`` of its tokens is to be
    predicted, ``<s>`` and ``</s>`` among them, rounded up or down at random.

    >>> Trainer(model, arguments, data_collator=MaskingCollator(model.config, mask_prob=0.387), ...)

    Args:
        config: of the model: the size of its vocabulary and its special tokens.
        mask_prob: share of the tokens to predict.
        leave_unmasked_prob: share of these that stay as they are.
        random_token_prob: share of these that become another token, drawn evenly from those that are not
            special; the others become ``<mask>``.
    """

    def __init__(self, config, mask_prob=0.15, leave_unmasked_prob=0.1, random_token_prob=0.1):
        self.mask_prob, self.leave_unmasked_prob = mask_prob, leave_unmasked_prob
        self.changed_prob = leave_unmasked_prob + random_token_prob
        self.pad, self.mask_token = config.pad_token_id, config.mask_token_id
        weights = np.ones(config.vocab_size)
        weights[[config.bos_token_id, config.pad_token_id, config.eos_token_id, config.unk_token_id]] = 0
        self.weights = weights / weights.sum()

    def __call__(self, rows) -> dict[str, torch.Tensor]:
        """Returns input_ids, attention_mask and labels, each [B, T] int64; labels are -100 except at the
        tokens to predict."""
        rng = np.random.default_rng(int(torch.randint(2**31, ())))  # another for each worker and epoch
        pairs = [self.mask(np.asarray(row["input_ids"]), rng) for row in rows]
        tokens, labels = (
            pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True, padding_value=value)
            for rows, value in zip(zip(*pairs, strict=True), (self.pad, -100), strict=True)
        )
        return {"input_ids": tokens, "attention_mask": (tokens != self.pad).long(), "labels": labels}

    def mask(self, tokens: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Returns tokens [T] as the model sees them, and their labels. Draws from ``rng`` as fairseq does."""
        T = len(tokens)
        chosen = np.zeros(T, dtype=bool)
        chosen[rng.choice(T, int(self.mask_prob * T + rng.random()), replace=False)] = True
        seen, labels = np.where(chosen, self.mask_token, tokens), np.where(chosen, tokens, -100)
        if self.changed_prob > 0:
            changed = chosen & (rng.random(T) < self.changed_prob)
            kept = changed & (rng.random(T) < self.leave_unmasked_prob / self.changed_prob)
            seen[kept] = tokens[kept]
            drawn = changed & ~kept
            if drawn.any():
                seen[drawn] = rng.choice(len(self.weights), drawn.sum(), p=self.weights)
        return seen, labels
