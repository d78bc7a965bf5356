"""Samples with masked words, the same for every model: drawn by a seed and the sample's number alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary, PrependTokenDataset, TokenBlockDataset, data_utils
from torch import Tensor

from fs_plugins.checkpoint import Checkpoint
from fs_plugins.data.length_order import batches_by_length
from fs_plugins.files import naming_errors
from fs_plugins.inference.masked_prediction import MaskedPredictor

SEED = 1
BATCH_TOKENS = 4096  # most tokens of a batch, with all copies or states


@dataclass(frozen=True)
class MaskedBatch:
    """A batch of B samples with masked words."""

    tokens: Tensor  # [B, T] int64, the original tokens, right-padded
    masked: Tensor  # [B, T] bool
    indices: list[int]  # the samples' numbers


def mask_words(tokens: Tensor, mask_prob: float, dictionary: Dictionary, seed: int, index: int) -> Tensor:
    """Returns the mask [T] bool of sample number ``index``: of this proportion of its words, at least one,
    and of no special symbol."""
    words = np.flatnonzero((tokens >= dictionary.nspecial).numpy())
    count = min(len(words), max(1, round(mask_prob * len(words))))
    chosen = np.random.default_rng((seed, index)).choice(words, count, replace=False)
    masked = torch.zeros(len(tokens), dtype=torch.bool)
    masked[torch.from_numpy(chosen)] = True
    return masked


def load_samples(
    checkpoint: Checkpoint,
    *,
    split: str = "valid",
    count: int = 1000,
    break_mode: str | None = None,
    max_tokens: int | None = None,
) -> list[Tensor]:
    """Returns the first samples of a split, as pre-training makes them: ``<s>`` and what follows, each [T].

    Args:
        checkpoint: ``checkpoint.data`` holds the split; of its training are the length of the samples
            (``--tokens-per-sample``) and the defaults of what follows.
        count: how many samples, or all if there are fewer.
        break_mode: as fairseq's ``--sample-break-mode``; "eos" for a sentence or molecule each.
        max_tokens: leave out samples of more tokens than this, with ``<s>``; by default than those of the
            training, so that models of the same training but another ``--max-positions`` get the same.
    """
    task, dictionary = checkpoint.cfg.task, checkpoint.dictionary
    break_mode = break_mode or str(getattr(task, "sample_break_mode", "eos"))  # a fine-tuning has rows
    longest = getattr(task, "tokens_per_sample", None)
    length = longest or 2  # eos, which data of a fine-tuning need, does not read it
    folder = Path(checkpoint.data or ".")
    with naming_errors(folder / split):
        dataset = data_utils.load_indexed_dataset(str(folder / split), dictionary)
        if dataset is None:
            raise ValueError("there is no such split: see --split")
    blocks = TokenBlockDataset(
        dataset, dataset.sizes, length - 1, pad=dictionary.pad(), eos=dictionary.eos(), break_mode=break_mode
    )
    max_tokens = max_tokens or longest
    lengths = np.asarray(blocks.sizes)  # <s> is not in them yet
    least = 1 if break_mode == "eos" else 0  # an empty sentence, as between documents, is no sample
    fitting = np.flatnonzero((lengths > least) & (lengths < (max_tokens or np.inf)))
    if not len(fitting):
        raise ValueError(f"{folder / split} has no sample of at most {max_tokens} tokens: see --max-tokens")
    blocks = PrependTokenDataset(blocks, dictionary.bos())
    return [blocks[int(i)] for i in fitting[:count]]


def batches_of(
    predictor: MaskedPredictor, samples: Sequence[Tensor], mask_prob: float, seed: int = SEED
) -> Iterator[MaskedBatch]:
    """Yields the samples with this proportion of their words masked, in batches by length on the model's
    device; those without words are left out."""
    dictionary, device = predictor.dictionary, next(predictor.model.parameters()).device
    numbers = [i for i, sample in enumerate(samples) if (sample >= dictionary.nspecial).any()]
    pad = torch.nn.utils.rnn.pad_sequence
    for batch in batches_by_length([len(samples[i]) * predictor.expansion for i in numbers], BATCH_TOKENS):
        part = [numbers[i] for i in batch]
        masked = [mask_words(samples[i], mask_prob, dictionary, seed, i) for i in part]
        tokens = pad([samples[i] for i in part], True, dictionary.pad())
        yield MaskedBatch(tokens.to(device), pad(masked, True, False).to(device), part)
