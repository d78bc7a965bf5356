"""Readings of a graph of states: its best and its sampled sequences of words (sections 4.3, appendix P).

A path goes from the first node to the last; each of its nodes emits a word, the first ``<s>`` and the last
``</s>``. The probability of a path and its words is the product of its transitions E(u, v) and of its words'
P_u(y), as in training. The words between ``<s>`` and ``</s>`` are the reading: as many as there are masks
(what training aligns), or any number.

All tensors here belong to one sentence and are float64, on a CPU:

=========  ======  =========================================================
``words``  [L, V]  log-probabilities of the vocabulary at each node
``links``  [L, L]  log E(u, v) of the transition u -> v, -inf where none is
=========  ======  =========================================================
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fs_plugins.custom_ops.dag_loss import dag_best_alignment, dag_loss


@dataclass(frozen=True)
class Path:
    """A way through the graph.

    Attributes:
        nodes: from 0 to L - 1.
        words: ids that the nodes between the first and the last emit; two fewer than nodes.
        log_prob: log-probability (nats) of the path and its words, ``<s>`` and ``</s>`` among them.
    """

    nodes: tuple[int, ...]
    words: tuple[int, ...]
    log_prob: float


class StateGraphReader:
    """Reads one sentence's graph; see the module for shapes.

    Args:
        words: [L, V]; links: [L, L].
        bos, eos: ids of ``<s>`` and ``</s>``.

    Raises:
        ValueError: for shapes that do not fit, fewer than 2 nodes, or no path from the first to the last.
    """

    def __init__(self, words: Tensor, links: Tensor, bos: int, eos: int):
        L = len(words)
        if words.dim() != 2 or tuple(links.shape) != (L, L) or L < 2:
            raise ValueError(
                f"words and links must be [L, V] and [L, L] with L >= 2, got {tuple(words.shape)} and "
                f"{tuple(links.shape)}"
            )
        self.words = words.double()
        no_edge = torch.ones(L, L, dtype=torch.bool).tril()
        self.links = links.double().masked_fill(no_edge, -torch.inf)
        self.bos, self.eos, self.L = bos, eos, L
        self.reach = self._reach()
        if self.reach[0] == -torch.inf:
            raise ValueError(f"no path leads from the first to the last of the {L} nodes")

    # ---- Of all paths

    def _reach(self) -> Tensor:
        """[L] log-probability that transitions from each node lead to the last one."""
        reach = torch.full((self.L,), -torch.inf, dtype=torch.float64)
        reach[-1] = 0.0
        for u in range(self.L - 2, -1, -1):
            reach[u] = torch.logsumexp(self.links[u] + reach, 0)
        return reach

    def _reach_in(self, steps: int) -> Tensor:
        """[steps + 1, L] log-probability to get from each node to the last one in exactly 0, 1, ... steps."""
        reach = torch.full((steps + 1, self.L), -torch.inf, dtype=torch.float64)
        reach[0, -1] = 0.0
        for step in range(1, steps + 1):
            reach[step] = torch.logsumexp(self.links + reach[step - 1], 1)
        return reach

    def visits(self) -> Tensor:
        """[L] probability that a path, drawn by the transitions, passes each node."""
        arrive = torch.full((self.L,), -torch.inf, dtype=torch.float64)
        arrive[0] = 0.0
        for v in range(1, self.L):
            arrive[v] = torch.logsumexp(arrive + self.links[:, v], 0)
        return (arrive + self.reach - self.reach[0]).exp()

    def length_log_prob(self, nodes: int) -> float:
        """Log-probability that a path, drawn by the transitions, has that many nodes."""
        if not 2 <= nodes <= self.L:
            return -torch.inf
        return float(self._reach_in(nodes - 1)[-1, 0] - self.reach[0])

    # ---- Best readings

    def best(self) -> Path:
        """The most probable path and words of any number (Viterbi; ties: the earliest node and word)."""
        emit, word = self.words.max(1)
        score = torch.full((self.L,), -torch.inf, dtype=torch.float64)
        score[0] = self.words[0, self.bos]
        back = [0] * self.L
        emit[-1] = self.words[-1, self.eos]
        for v in range(1, self.L):
            best, u = (score[:v] + self.links[:v, v]).max(0)
            score[v], back[v] = best + emit[v], int(u)
        nodes = [self.L - 1]
        while nodes[-1] != 0:
            nodes.append(back[nodes[-1]])
        nodes = tuple(reversed(nodes))
        return Path(nodes, tuple(int(word[u]) for u in nodes[1:-1]), float(score[-1]))

    def best_of(self, count: int) -> Path | None:
        """The most probable path and words, of exactly ``count`` words; None if there is no such path."""
        top, word = self.words.max(1)  # [L]
        match = top.expand(count + 2, -1).clone()  # any word, in between
        match[0], match[-1] = self.words[:, self.bos], self.words[:, self.eos]
        lengths = torch.tensor([self.L]), torch.tensor([count + 2])
        alignment = dag_best_alignment(match[None], self.links[None], *lengths)[0]
        nodes = alignment.ge(0).nonzero().flatten().tolist()
        if not nodes:
            return None
        words = tuple(int(word[u]) for u in nodes[1:-1])
        return Path(tuple(nodes), words, self.path_log_prob(nodes, words))

    # ---- Sampled readings

    def sample(self, generator: torch.Generator, count: int | None = None) -> Path | None:
        """One path drawn by the transitions, then a word at each of its inner nodes.

        With ``count``, drawn from the paths of exactly that many words (in proportion to their transitions);
        None if there is no such path.
        """
        if count is None:
            nodes = self._walk(generator)
            words = self._words(torch.tensor([nodes[1:-1]], dtype=torch.int64), generator)
        else:
            drawn = self.draw(generator, count, 1)
            if drawn is None:
                return None
            nodes, words = tuple(drawn[0][0].tolist()), drawn[1]
        words = tuple(words[0].tolist())
        return Path(nodes, words, self.path_log_prob(nodes, words))

    def draw(self, generator: torch.Generator, count: int, n: int) -> tuple[Tensor, Tensor] | None:
        """``n`` independent samples of :meth:`sample` with ``count`` words: their nodes [n, count + 2] and
        words [n, count], int64; None if there is no such path."""
        if not 0 <= count <= self.L - 2:
            return None
        reach = self._reach_in(count + 1)
        if reach[-1, 0] == -torch.inf:
            return None
        nodes = torch.zeros(n, count + 2, dtype=torch.int64)
        for i in range(1, count + 2):
            chance = (self.links[nodes[:, i - 1]] + reach[count + 1 - i]).softmax(-1)  # [n, L]
            nodes[:, i] = torch.multinomial(chance, 1, generator=generator)[:, 0]
        return nodes, self._words(nodes[:, 1:-1], generator)

    def _words(self, nodes: Tensor, generator: torch.Generator) -> Tensor:
        """A word drawn at each of the nodes [n, count]."""
        if nodes.numel() == 0:
            return torch.zeros_like(nodes)
        probs = self.words[nodes.flatten()].exp()
        return torch.multinomial(probs, 1, generator=generator).view(nodes.shape)

    def _walk(self, generator: torch.Generator) -> tuple[int, ...]:
        nodes = [0]
        while nodes[-1] != self.L - 1:
            chance = (self.links[nodes[-1]] + self.reach).softmax(0)
            nodes.append(int(torch.multinomial(chance, 1, generator=generator)))
        return tuple(nodes)

    # ---- Log-probabilities

    def path_log_prob(self, nodes, words) -> float:
        """Log-probability of a path and its inner nodes' words."""
        ids = torch.tensor([self.bos, *words, self.eos])
        nodes = torch.tensor(nodes)
        return float(self.words[nodes, ids].sum() + self.links[nodes[:-1], nodes[1:]].sum())

    def words_log_prob(self, words) -> float:
        """Log-probability of a reading, summed over all its paths: what training maximises."""
        ids = torch.tensor([self.bos, *words, self.eos])
        match = self.words[:, ids].t()[None]  # [1, M, L]
        lengths = torch.tensor([self.L]), torch.tensor([len(ids)])
        return float(dag_loss(match, self.links[None], *lengths))
