"""The best decoding of a graph of states, and probabilities of its paths (section 4.3, appendix P).

A path goes from the first node to the last; each of its nodes emits a word, the first ``<s>`` and the last
``</s>``. The probability of a path and its words is the product of its transitions E(u, v) and of its words'
P_u(y), as in training. The words between ``<s>`` and ``</s>`` are the decoding, as many as there are masks.

All tensors here belong to one sentence and are float64, on a CPU: ``log_probs`` [L, V] of the vocabulary at
each node; ``links`` [L, L], log E(u, v) of the transition u -> v, -inf where none is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fs_plugins.custom_ops.dag_loss import dag_loss


@dataclass(frozen=True)
class Path:
    """A way through the graph."""

    nodes: tuple[int, ...]  # indices, from 0 to L - 1
    words: tuple[int, ...]  # ids that the nodes between the first and the last emit; two fewer than nodes
    log_prob: float  # log-probability (nats) of the path and its words, ``<s>`` and ``</s>`` among them


class GraphDecoder:
    """Decodes one sentence's graph; see the module for shapes. ``bos`` and ``eos`` are ids of ``<s>`` and
    ``</s>``, ``barred`` those that no node between the first and the last emits in a decoding. Raises
    ValueError if no path leads from the first node to the last."""

    def __init__(self, log_probs: Tensor, links: Tensor, bos: int, eos: int, barred: Sequence[int] = ()):
        L = len(log_probs)
        self.log_probs, self.barred = log_probs.double(), list(barred)
        no_edge = torch.ones(L, L, dtype=torch.bool).tril()
        self.links = links.double().masked_fill(no_edge, -torch.inf)
        self.bos, self.eos, self.L = bos, eos, L
        # [L] log-probability that transitions lead from each node to the last one
        self.total = torch.full((L,), -torch.inf, dtype=torch.float64)
        self.total[-1] = 0.0
        for u in range(L - 2, -1, -1):
            self.total[u] = torch.logsumexp(self.links[u] + self.total, 0)
        if self.total[0] == -torch.inf:
            raise ValueError(f"no path leads from the first to the last of the {L} nodes")

    def visits(self) -> Tensor:
        """Returns the probability [L] that a path, drawn by the transitions, passes each node."""
        # Transitions of the paths that arrive; visits = start + visits @ onward.
        onward = (self.links + self.total - self.total[:, None]).exp().nan_to_num()
        one = torch.eye(self.L, dtype=torch.float64)
        return torch.linalg.solve_triangular((one - onward).mT, one[:, :1], upper=False)[:, 0]

    def best(self, count: int) -> Path | None:
        """Returns the most probable path of ``count`` words, and its words (Viterbi); None if there is
        none."""
        inner = self.log_probs.clone()
        inner[:, self.barred] = -torch.inf
        emit, word = inner.max(1)
        emit[-1] = self.log_probs[-1, self.eos]
        score, back = torch.full_like(emit, -torch.inf), []
        score[0] = self.log_probs[0, self.bos]
        for _ in range(count + 1):
            score, u = (score[:, None] + self.links + emit).max(0)
            back.append(u)
        if score[-1] == -torch.inf:
            return None
        nodes = [self.L - 1]
        for u in reversed(back):
            nodes.append(int(u[nodes[-1]]))
        nodes.reverse()
        return Path(tuple(nodes), tuple(int(word[u]) for u in nodes[1:-1]), float(score[-1]))

    def words_log_prob(self, words: Sequence[int]) -> float:
        """Returns the log-probability of a decoding, summed over all its paths: what training maximises."""
        ids = torch.tensor([self.bos, *words, self.eos])
        match = self.log_probs[:, ids].t()[None]  # [1, M, L]
        lengths = torch.tensor([self.L]), torch.tensor([len(ids)])
        return float(dag_loss(match, self.links[None], *lengths))
