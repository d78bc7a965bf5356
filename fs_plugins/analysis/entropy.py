"""Entropy of the predictions for masked tokens (appendices E and Q.1), in bits.

Of a masked token:

* *MLM*: H[P] at its position.
* *Repeated MLM* (E.1): where all k copies of the token are masked, the mean of H[P] over them.
* *ExLM*: (a) the mean of H[P_u] over its own k nodes; (b) the mean of H[P_u] over all nodes u of the graph,
  weighted by the posterior probability that u emits the token.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fs_plugins.custom_ops.dag_loss import node_posteriors
from fs_plugins.custom_ops.match_scores import CHUNK_BYTES, match_scores


def entropy_bits(states: Tensor, weight: Tensor, bias: Tensor, chunk_bytes: int = CHUNK_BYTES) -> Tensor:
    """H[softmax(weight @ states + bias)] in bits.

    Args:
        states: [..., d] what the output matrix is applied to.
        weight: [V, d]; bias: [V].
        chunk_bytes: of logits that are alive at a time (one row's at least).

    Returns:
        [...] float32 (float64 for float64 states), 0 ... log2 V.
    """
    rows = states.flatten(0, -2)
    compute = torch.float64 if states.dtype == torch.float64 else torch.float32
    result = torch.empty(len(rows), dtype=compute, device=states.device)
    size = max(1, chunk_bytes // (3 * compute.itemsize * len(weight)))  # logits, their softmax, -p log p
    for start in range(0, len(rows), size):
        probs = F.linear(rows[start : start + size], weight, bias).to(compute).softmax(-1)
        result[start : start + size] = torch.special.entr(probs).sum(-1)
    return (result / math.log(2)).view(states.shape[:-1])


@torch.no_grad()
def mlm_entropy(model, tokens: Tensor, target: Tensor, wanted: Tensor, k: int = 1) -> Tensor:
    """Entropy of the tokens of a (Repeated) MLM.

    Args:
        tokens, target: [B, k T] int64, the input, and the original token at masked ones, else pad.
        wanted: [B, T] bool, the tokens whose k copies are all masked.
        k: copies of each token.

    Returns:
        [B, T] bits, the mean over the copies; 0 where not wanted.
    """
    encoder = model.encoder
    features, _ = encoder(tokens, features_only=True)  # [B, k T, d]
    copies = wanted.repeat_interleave(k, dim=1)
    head = encoder.lm_head
    bits = entropy_bits(head.transform(features[copies]), head.weight, head.bias)
    result = bits.new_zeros(copies.shape)
    result[copies] = bits
    return result.unflatten(1, (-1, k)).mean(-1)


@dataclass(frozen=True)
class StateEntropy:
    """Entropies of the M targets of B sentences of an ExLM, all [B, M]: see the module."""

    plain: Tensor
    posterior: Tensor
    own_share: Tensor
    targets: Tensor
    finite: Tensor  # [B] bool


@torch.no_grad()
def exlm_entropy(model, tokens: Tensor, target: Tensor) -> StateEntropy:
    """Entropy of the targets of an ExLM; tokens and target as in :func:`mlm_entropy`, [B, T]."""
    graph, _ = model(tokens, target=target)
    layout, k = graph.layout, model.encoder.k
    head = graph.output_weight, graph.output_bias
    node_bits = entropy_bits(graph.node_states, *head)  # [B, L]
    match = match_scores(graph.node_states, *head, layout.targets)  # [B, M, L]
    posterior, log_probs = node_posteriors(match, graph.links, layout.node_lengths, layout.target_lengths)
    return StateEntropy(
        plain=node_bits.unflatten(1, (-1, k)).mean(-1),
        posterior=(posterior * node_bits[:, None]).sum(-1),
        own_share=own_states(posterior, k).sum(-1),
        targets=layout.targets,
        finite=log_probs.isfinite(),
    )


def own_states(nodes: Tensor, k: int) -> Tensor:
    """[B, M, L = M k] values of each target's nodes -> [B, M, k] those of its own."""
    M = nodes.shape[1]
    return nodes.unflatten(2, (M, k)).diagonal(dim1=1, dim2=2).transpose(1, 2)


@dataclass(frozen=True)
class Mean:
    """A mean over tokens; ``standard_error`` with each sentence's tokens as one cluster; how many of each."""

    mean: float
    standard_error: float
    tokens: int
    sentences: int


@dataclass
class ClusteredMean:
    """Sums and counts of sentences, for a mean over all their tokens."""

    sums: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def add(self, values: Tensor, wanted: Tensor) -> None:
        """values [B, M], of which those ``wanted`` [B, M] count; a row is a sentence."""
        self.add_sums(torch.where(wanted, values, 0.0).double().sum(1), wanted.sum(1))

    def add_sums(self, sums: Tensor, counts: Tensor) -> None:
        """Of sentences [B], the sum of their tokens' values, and how many these are."""
        self.sums += sums.double().tolist()
        self.counts += counts.tolist()

    def result(self) -> Mean | None:
        """None where no token was counted; the error is NaN for a single sentence."""
        sums, counts = np.array(self.sums), np.array(self.counts)
        sums, counts = sums[counts > 0], counts[counts > 0]
        if len(counts) == 0:
            return None
        mean, n = sums.sum() / counts.sum(), len(counts)
        spread = ((sums - mean * counts) ** 2).sum()
        error = math.sqrt(spread * n / (n - 1)) / counts.sum() if n > 1 else math.nan
        return Mean(float(mean), float(error), int(counts.sum()), n)
