"""Recovery of masked words: one probe for MLM, Repeated MLM, ExLM and its ablations.

    python -m fs_plugins.analysis.probe checkpoint.pt --data data-bin --mask-prob 0.15 --output probe.json

Of each sample of the validation split a share of the words is drawn, by a seed and the sample's number alone:
every model has to recover the same words from the same visible ones. They are replaced by <mask>; in Repeated
MLM all k copies are. A model's prediction of a drawn word is the most probable one under its own distribution
of that word given the visible ones (fs_plugins/analysis/masked_prediction.py).

Given are the share of words recovered, and -log2 of the probability of the right word, in bits. Of several
checkpoints of a training they are a learning curve: one row each, by updates.
"""

import argparse
import math

from fs_plugins.analysis import command_line
from fs_plugins.analysis.masked_prediction import MaskedPredictor
from fs_plugins.analysis.masked_samples import SEED, masked_batches


def probe(predictor: MaskedPredictor, samples, share: float, *, seed: int = SEED, device="cpu") -> dict:
    """How well a model recovers ``share`` of the words of the samples.

    Args:
        predictor: the model.
        samples: [T] int64 each, of :func:`load_samples`.
        share: between 0 and 1.
        seed: of the choice of words.
        device: where the model is.

    Returns:
        ``accuracy`` with its binomial ``standard_error``; ``bits`` a word; ``tokens``, how many words.
    """
    right = bits = total = 0.0
    batches = masked_batches(
        samples, share, predictor.dictionary, states=predictor.states, seed=seed, device=device
    )
    for batch in batches:
        log_probs = predictor.token_log_probs(batch.tokens, batch.masked)
        target = batch.tokens[batch.masked]
        right += int((log_probs.argmax(-1) == target).sum())
        bits -= float(log_probs.gather(1, target[:, None]).sum()) / math.log(2)
        total += len(target)
    accuracy = right / total
    return {
        "mask_prob": share,
        "accuracy": accuracy,
        "standard_error": math.sqrt(accuracy * (1 - accuracy) / total),
        "bits": bits / total,
        "tokens": int(total),
    }


def measure(args: argparse.Namespace) -> dict:
    """What the command writes."""
    rows = command_line.of_each_checkpoint(args, lambda one: command_line.at_mask_probs(one, probe))
    return rows if len(args.checkpoint) > 1 else rows["rows"][0]


def main(argv=None) -> None:
    arguments = command_line.parser(__doc__, samples="samples, the first of the split", checkpoints=True)
    command_line.add_mask_prob(arguments, default=0.15)
    command_line.run(arguments, measure, argv)


if __name__ == "__main__":
    main()
