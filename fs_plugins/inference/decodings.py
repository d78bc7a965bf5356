"""Decodings of a graph of states: its best and its sampled sequences of words (sections 4.3, appendix P).

A path goes from the first node to the last; each of its nodes emits a word, the first ``<s>`` and the last
``</s>``. The probability of a path and its words is the product of its transitions E(u, v) and of its words'
P_u(y), as in training. The words between ``<s>`` and ``</s>`` are the decoding: as many as there are masks
(what training aligns), or any number. "Any number" is a path of exactly L nodes which, once it is at the last
one, stays there: a link from the last node to itself of probability 1, which emits nothing.

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
    """Decodes one sentence's graph; see the module for shapes. ``count`` is a number of words, None for any;
    ``bos`` and ``eos`` are ids of ``<s>`` and ``</s>``, ``barred`` those that no node between the first and
    the last emits in a decoding. Raises ValueError if no path leads from the first node to the last."""

    def __init__(self, log_probs: Tensor, links: Tensor, bos: int, eos: int, barred: Sequence[int] = ()):
        L = len(log_probs)
        self.log_probs = log_probs.double()
        self.inner = self.log_probs.clone()  # copy for what is decoded
        self.inner[:, list(barred)] = -torch.inf
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

    def _onward(self, count: int | None) -> Tensor:
        """Returns the log-probability [steps + 1, L] to get from each node to the last one in 0, 1, ...
        steps."""
        if count is None:
            return self.total.expand(self.L, -1)  # no path has more steps than nodes that are left
        rows = [torch.full((self.L,), -torch.inf, dtype=torch.float64)]
        rows[0][-1] = 0.0
        for _ in range(count + 1):
            rows.append(torch.logsumexp(self.links + rows[-1], 1))
        return torch.stack(rows)

    def visits(self) -> Tensor:
        """Returns the probability [L] that a path, drawn by the transitions, passes each node."""
        # Transitions of the paths that arrive; visits = start + visits @ onward.
        onward = (self.links + self.total - self.total[:, None]).exp().nan_to_num()
        one = torch.eye(self.L, dtype=torch.float64)
        return torch.linalg.solve_triangular((one - onward).mT, one[:, :1], upper=False)[:, 0]

    def length_log_prob(self, nodes: int) -> float:
        """Returns the log-probability that a path, drawn by the transitions, has that many nodes (>= 2)."""
        return float(self._onward(nodes - 2)[-1, 0] - self.total[0])

    def best(self, count: int | None = None) -> Path | None:
        """Returns the most probable path and words (Viterbi); None if there is no path of so many words."""
        emit, word = self.inner.max(1)
        emit[-1] = self.log_probs[-1, self.eos]
        edges, back = self.links + emit, []
        edges[-1, -1] = 0.0 if count is None else -torch.inf
        score = torch.full_like(emit, -torch.inf)
        score[0] = self.log_probs[0, self.bos]
        for _ in range(self.L - 1 if count is None else count + 1):
            score, u = (score[:, None] + edges).max(0)
            back.append(u)
        if score[-1] == -torch.inf:
            return None
        nodes = [self.L - 1]
        for u in reversed(back):
            nodes.append(int(u[nodes[-1]]))
        nodes = tuple(dict.fromkeys(reversed(nodes)))  # without the stay at the last one
        return Path(nodes, tuple(int(word[u]) for u in nodes[1:-1]), float(score[-1]))

    def sample(self, generator: torch.Generator, n: int, count: int | None = None) -> list[Path]:
        """Returns n paths, each drawn by the transitions, of exactly ``count`` words if that is given, and
        then a word at each of its inner nodes; none if there is no such path."""
        links, onward = self.links.clone(), self._onward(count)
        links[-1, -1] = 0.0 if count is None else -torch.inf
        if n == 0 or onward[-1, 0] == -torch.inf:
            return []
        nodes = torch.zeros(n, 1, dtype=torch.int64)
        for left in reversed(range(len(onward) - 1)):
            if (nodes[:, -1] == self.L - 1).all():
                break
            chance = (links[nodes[:, -1]] + onward[left]).softmax(-1)  # [n, L]
            nodes = torch.cat([nodes, torch.multinomial(chance, 1, generator=generator)], 1)
        at_end, words = nodes == self.L - 1, torch.full_like(nodes, self.eos)
        inner = ~at_end
        inner[:, 0], words[:, 0] = False, self.bos
        if inner.any():
            chance = self.inner[nodes[inner]].softmax(-1)
            words[inner] = torch.multinomial(chance, 1, generator=generator)[:, 0]
        steps = links[nodes[:, :-1], nodes[:, 1:]] + self.log_probs[nodes, words][:, 1:]
        stays = at_end[:, :-1]  # the last node emits nothing more
        log_probs = self.log_probs[0, self.bos] + steps.masked_fill(stays, 0.0).sum(1)
        rows = zip(nodes.tolist(), words.tolist(), log_probs.tolist(), (~at_end).sum(1).tolist(), strict=True)
        return [Path((*row[:n], self.L - 1), (*ids[1:n],), log_prob) for row, ids, log_prob, n in rows]

    def words_log_prob(self, words) -> float:
        """Returns the log-probability of a decoding, summed over all its paths: what training maximises."""
        ids = torch.tensor([self.bos, *words, self.eos])
        match = self.log_probs[:, ids].t()[None]  # [1, M, L]
        lengths = torch.tensor([self.L]), torch.tensor([len(ids)])
        return float(dag_loss(match, self.links[None], *lengths))
