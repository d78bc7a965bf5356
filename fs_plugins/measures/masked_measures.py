"""Measures of the words that are masked, the same ones for every model.

Each masks a share of the words of every sample, drawn by a seed and the sample's number alone, and asks the
model for them, given the visible words and the number of missing ones (fs_plugins/inference/
masked_prediction.py). They take a MaskedPredictor, samples ([T] int64 each, of ``load_samples``), the share,
and the seed of the choice of words. Standard errors take the words of a sample as one cluster.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fs_plugins.criterions.state_use import divergences, entropy, path_posteriors, shares
from fs_plugins.exlm.alignment import own_states
from fs_plugins.inference.masked_prediction import MaskedPredictor
from fs_plugins.measures.masked_samples import SEED, batches_of
from fs_plugins.measures.means import ClusteredMean

SECOND = 0.1  # least share of a second state


def probe(predictor: MaskedPredictor, samples: Sequence[Tensor], share: float, *, seed: int = SEED) -> dict:
    """Recovery of masked words, each by itself.

    A model's prediction of a word is the most probable one under its own distribution of that word given the
    visible ones. Given are the share of words recovered (accuracy), and bits: -log2 of the probability of the
    right word. Of several checkpoints of a training they are a learning curve: one row each, by updates.
    """
    right, bits = ClusteredMean(), 0.0
    for batch in batches_of(predictor, samples, share, seed):
        log_probs = predictor.token_log_probs(batch.tokens, batch.masked)
        target = batch.tokens[batch.masked]
        hits = torch.zeros_like(batch.masked, dtype=torch.float32)
        hits[batch.masked] = (log_probs.argmax(-1) == target).float()
        right.add(hits, batch.masked)
        bits -= float(log_probs.gather(1, target[:, None]).sum()) / math.log(2)
    accuracy = right.result()
    return {
        "mask_prob": share,
        "accuracy": accuracy.mean,
        "standard_error": accuracy.standard_error,
        "bits": bits / accuracy.tokens,
        "tokens": accuracy.tokens,
    }


def joint_likelihood(
    predictor: MaskedPredictor, samples: Sequence[Tensor], share: float, *, seed: int = SEED
) -> dict:
    """Joint likelihood of all masked words of a sample, and what a model gains by their dependence.

    In bits per masked word:

    * joint: of all masked words of a sample together. ExLM sums over the paths of its graph; for an MLM, and
      ExLM w/o transitions, it is the product over words, which they take to be independent.
    * marginal: the product of the model's own probabilities of each word by itself.
    * gain: marginal minus joint; 0 where words are independent, more where the graph knows which go together.
    """
    meters = {name: ClusteredMean() for name in ("joint", "marginal", "gain")}
    for batch in batches_of(predictor, samples, share, seed):
        each, together = predictor.log_probs_of(batch.tokens, batch.masked)
        marginal, joint = (-nats.double() / math.log(2) for nats in (each.double().sum(1), together))
        for name, bits in (("joint", joint), ("marginal", marginal), ("gain", marginal - joint)):
            meters[name].add_sums(bits, batch.masked.sum(1))
    return {"mask_prob": share, **{name: meter.result() for name, meter in meters.items()}}


@torch.no_grad()
def use_of_states(
    predictor: MaskedPredictor, samples: Sequence[Tensor], share: float, *, seed: int = SEED
) -> dict:
    """Use of states: whether probability is spread over the k states of a mask, and their predictions differ.

    For ExLM. Of each masked word i, q(c) is the probability that its own state c is the i-th node of a path,
    among its own k states; paths are drawn by the transitions, of as many nodes as there are targets, before
    any target is known:

    * entropy: H[q] in bits, 0 (one state does it all) ... log2 k.
    * posterior_entropy: the same with the posterior of training, where the targets are known: states that say
      different words then tell which of them was right, and the entropy falls.
    * divergence: the Jensen-Shannon divergence of the states' words, H[sum q(c) P_c] - sum q(c) H[P_c], in
      bits: what the state tells about the word. 0 where states agree or one does it all; at most the entropy.
    * second_state: the share of masked words with a second state of q above 10%.
    * own_share: the probability that the i-th node is a state of the word's own; posterior_own_share: the
      same by the posterior. Low while paths wander.

    Raises:
        ValueError: for a model without transitions.
    """
    k, meters = predictor.k, {}
    for batch in batches_of(predictor, samples, share, seed):
        graph = predictor.graph(batch.tokens, batch.masked)
        known = graph.match(batch.tokens[batch.masked])
        paths = (path_posteriors(graph.graph, match)[0] for match in (None, known))
        own, own_posterior = (own_states(nodes, k) for nodes in paths)
        q = shares(own)  # [B, M, k]
        second = q.sort(-1, descending=True).values[..., 1:2].sum(-1)  # 0 for k = 1
        for name, values in {  # [B, M] each, of no meaning where not masked
            "entropy": entropy(q),
            "posterior_entropy": entropy(shares(own_posterior)),
            "divergence": divergences(q, graph.is_masked, graph.graph.log_probs),
            "second_state": (second > SECOND).float(),
            "own_share": own.sum(-1),
            "posterior_own_share": own_posterior.sum(-1),
        }.items():
            meters.setdefault(name, ClusteredMean()).add(values, graph.is_masked)
    return {"mask_prob": share, **{name: meter.result() for name, meter in meters.items()}}
