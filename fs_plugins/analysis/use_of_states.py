"""Use of states: whether probability is spread over the k states of a mask, and their predictions differ.

    python -m fs_plugins.analysis.use_of_states checkpoints/exlm/checkpoint_*.pt --output states.json

For ExLM, with one row for each checkpoint, by updates. Of each masked word i, q(c) is the probability that
its own state c is the i-th node of a path, among its own k states; paths are drawn by the transitions, of as
many nodes as there are targets, before any target is known
(fs_plugins/analysis/masked_prediction.py). Means over masked words, standard errors by sample:

* entropy: H[q] in bits, 0 (one state does it all) ... log2 k.
* posterior_entropy: the same with the posterior of training, where the targets are known: states that say
  different words then tell which of them was right, and the entropy falls.
* divergence: the Jensen-Shannon divergence of the states' words, H[sum q(c) P_c] - sum q(c) H[P_c], in bits:
  what the state tells about the word. 0 where states agree or one does it all; at most the entropy.
* second_state: the share of masked words with a second state of q above 10%.
* own_share: the probability that the i-th node is a state of the word's own; posterior_own_share: the same by
  the posterior. Low while paths wander.
"""

import argparse
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fs_plugins.analysis import command_line
from fs_plugins.analysis.entropy import ClusteredMean, own_states
from fs_plugins.analysis.masked_prediction import MaskedGraph, MaskedPredictor
from fs_plugins.analysis.masked_samples import SEED, masked_batches

MEASURES = (
    "entropy",
    "posterior_entropy",
    "divergence",
    "second_state",
    "own_share",
    "posterior_own_share",
)
SECOND = 0.1  # what a second state has to have


def states_of_words(found: MaskedGraph, words: Tensor, k: int) -> dict[str, Tensor]:
    """The measures of the module for each masked word, all [B, M]; of no meaning where not ``is_masked``.

    Args:
        found: the graph of the sentences.
        words: [masked words] int64, the right ones.
        k: states of a mask.
    """
    prior, posterior = found.paths[0], found.posterior(words)  # [B, M, L]
    own, own_posterior = own_states(prior, k), own_states(posterior, k)  # [B, M, k]
    q = own / own.sum(-1, keepdim=True).clamp_min(1e-30)
    return {
        "entropy": _bits(q),
        "posterior_entropy": _bits(own_posterior / own_posterior.sum(-1, keepdim=True).clamp_min(1e-30)),
        "divergence": _divergence(found, q),
        "second_state": (q.topk(2).values[..., 1] > SECOND).float() if k > 1 else torch.zeros_like(q[..., 0]),
        "own_share": own.sum(-1),
        "posterior_own_share": own_posterior.sum(-1),
    }


def _bits(probs: Tensor) -> Tensor:
    return torch.special.entr(probs).sum(-1) / math.log(2)


def _divergence(found: MaskedGraph, q: Tensor) -> Tensor:
    """[B, M] from q [B, M, k]."""
    result, k = torch.zeros(q.shape[:2], device=q.device), q.shape[2]
    for b, masked in enumerate(found.is_masked):
        probs = found.node_log_probs(b).exp().unflatten(0, (-1, k))  # [M, k, V]
        masked = masked[: len(probs)]
        weights, probs = q[b, : len(probs)][masked], probs[masked]  # [R, k], [R, k, V]
        mixed = (weights[..., None] * probs).sum(1)
        result[b, : len(masked)][masked] = _bits(mixed) - (weights * _bits(probs)).sum(1)
    return result


@torch.no_grad()
def use_of_states(
    predictor: MaskedPredictor, samples: Sequence[Tensor], share: float, *, seed: int = SEED, device="cpu"
) -> dict:
    """The measures of the module, each a :class:`Mean`, of the samples with ``share`` of their words masked.

    Raises:
        ValueError: for a model without transitions.
    """
    if not predictor.has_transitions:
        raise ValueError(
            "the use of states is that of paths through them: give a checkpoint of exlm_* or "
            "p_roberta_ext_denselink* that was trained by --criterion nat_dag_loss_mlm"
        )
    meters = {name: ClusteredMean() for name in MEASURES}
    batches = masked_batches(
        samples, share, predictor.dictionary, states=predictor.states, seed=seed, device=device
    )
    for batch in batches:
        found = predictor.graph(batch.tokens, batch.masked)
        values = states_of_words(found, batch.tokens[batch.masked], predictor.k)
        for name, meter in meters.items():
            meter.add(values[name], found.is_masked)
    return {"mask_prob": share, **{name: meter.result() for name, meter in meters.items()}}


def measure(args: argparse.Namespace) -> dict:
    """What the command writes."""
    return command_line.of_each_checkpoint(args, lambda one: command_line.at_mask_probs(one, use_of_states))


def main(argv=None) -> None:
    arguments = command_line.parser(
        __doc__, samples="samples, the first of the split", count=200, checkpoints=True
    )
    command_line.add_mask_prob(arguments)
    command_line.run(arguments, measure, argv)


if __name__ == "__main__":
    main()
