"""Joint likelihood of all masked words of a sample, and what a model gains by their dependence on each other.

    python -m fs_plugins.analysis.joint_likelihood checkpoint.pt --mask-prob 0.15 0.387 --output joint.json

In bits per masked token, given the visible words and the number of missing ones
(fs_plugins/analysis/masked_prediction.py):

* joint: of all masked words of a sample together. ExLM sums over the paths of its graph; for an MLM, and ExLM
  w/o transitions, it is the product over words, which they take to be independent.
* marginal: the product of the model's own probabilities of each word by itself.
* gain: marginal minus joint; 0 where words are independent, more where the graph knows which go together.

The masked words are the same for every model. Standard errors take the words of a sample as one cluster.
"""

import argparse
import math
from collections.abc import Sequence

from torch import Tensor

from fs_plugins.analysis import command_line
from fs_plugins.analysis.entropy import ClusteredMean
from fs_plugins.analysis.masked_prediction import MaskedPredictor
from fs_plugins.analysis.masked_samples import SEED, masked_batches


def joint_likelihood(
    predictor: MaskedPredictor, samples: Sequence[Tensor], share: float, *, seed: int = SEED, device="cpu"
) -> dict:
    """``mask_prob``, and ``joint``, ``marginal`` and ``gain``, each a :class:`Mean` in bits per masked token.

    Args:
        predictor: the model.
        samples: [T] int64 each, of :func:`load_samples`.
        share: of the words that are masked, between 0 and 1.
        seed: of the choice of words.
        device: where the model is.
    """
    meters = {name: ClusteredMean() for name in ("joint", "marginal", "gain")}
    batches = masked_batches(
        samples, share, predictor.dictionary, states=predictor.states, seed=seed, device=device
    )
    for batch in batches:
        each, joint = predictor.log_probs_of(batch.tokens, batch.masked)
        marginal = each.double().sum(1)
        joint, counts = joint.double(), batch.masked.sum(1)
        for name, log_probs in (("joint", joint), ("marginal", marginal), ("gain", marginal - joint)):
            meters[name].add_sums(-log_probs / math.log(2), counts)
    return {"mask_prob": share, **{name: meter.result() for name, meter in meters.items()}}


def measure(args: argparse.Namespace) -> dict:
    """What the command writes."""
    return command_line.at_mask_probs(args, joint_likelihood)


def main(argv=None) -> None:
    arguments = command_line.parser(__doc__, samples="samples, the first of the split")
    command_line.add_mask_prob(arguments)
    command_line.run(arguments, measure, argv)


if __name__ == "__main__":
    main()
