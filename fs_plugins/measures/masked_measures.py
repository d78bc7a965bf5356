"""Measures of the words that are masked, the same ones for every model.

Each masks a proportion of the words of every sample, drawn by a seed and the sample's number alone, and asks
the model for them, given the visible words and the number of missing ones (fs_plugins/inference/
masked_prediction.py). They take a MaskedPredictor, samples ([T] int64 each, of ``load_samples``), the
proportion, and the seed of the choice of words. Standard errors take the words of a sample as one cluster.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fs_plugins.inference.masked_prediction import MaskedPredictor
from fs_plugins.measures.masked_samples import SEED, batches_of
from fs_plugins.measures.means import ClusteredMean


def probe(
    predictor: MaskedPredictor, samples: Sequence[Tensor], mask_prob: float, *, seed: int = SEED
) -> dict:
    """Recovery of masked words, each by itself.

    A model's prediction of a word is the most probable one under its own distribution of that word given the
    visible ones. Given are the share of words recovered (accuracy), and bits: -log2 of the probability of the
    right word. Of several checkpoints of a training they are a learning curve: one row each, by updates.
    """
    right, bits = ClusteredMean(), 0.0
    for batch in batches_of(predictor, samples, mask_prob, seed):
        log_probs = predictor.token_log_probs(batch.tokens, batch.masked)
        target = batch.tokens[batch.masked]
        hits = torch.zeros_like(batch.masked, dtype=torch.float32)
        hits[batch.masked] = (log_probs.argmax(-1) == target).float()
        right.add(hits, batch.masked)
        bits -= float(log_probs.gather(1, target[:, None]).sum()) / math.log(2)
    accuracy = right.result()
    return {
        "mask_prob": mask_prob,
        "accuracy": accuracy.mean,
        "standard_error": accuracy.standard_error,
        "bits": bits / accuracy.tokens,
        "tokens": accuracy.tokens,
    }


def joint_likelihood(
    predictor: MaskedPredictor, samples: Sequence[Tensor], mask_prob: float, *, seed: int = SEED
) -> dict:
    """Joint likelihood of all masked words of a sample, and what a model gains by their dependence.

    In bits per masked word:

    * joint: of all masked words of a sample together. ExLM sums over the paths of its graph; for an MLM, and
      ExLM w/o transitions, it is the product over words, which they take to be independent.
    * marginal: the product of the model's own probabilities of each word by itself.
    * gain: marginal minus joint; 0 where words are independent, more where the graph knows which go together.
    """
    meters = {name: ClusteredMean() for name in ("joint", "marginal", "gain")}
    for batch in batches_of(predictor, samples, mask_prob, seed):
        each, together = predictor.log_probs_of(batch.tokens, batch.masked)
        marginal, joint = (-nats.double() / math.log(2) for nats in (each.double().sum(1), together))
        for name, bits in (("joint", joint), ("marginal", marginal), ("gain", marginal - joint)):
            meters[name].add_sums(bits, batch.masked.sum(1))
    return {"mask_prob": mask_prob, **{name: meter.result() for name, meter in meters.items()}}
