"""Slow truths: every alignment of a small graph, one by one, in float64."""

import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor


def paths(nodes: int, targets: int) -> Iterator[tuple[int, ...]]:
    """All strictly increasing node sequences of the given length from the first to the last node."""
    for path in itertools.combinations(range(nodes), targets):
        if path and (path[0], path[-1]) == (0, nodes - 1):
            yield path


def path_scores(match: Tensor, links: Tensor, n: int, m: int) -> list[tuple[float, tuple[int, ...]]]:
    """Log-probability of each path of one sentence: match [M, L], links [L, L]."""
    match, links = match.double().tolist(), links.double().tolist()
    scores = []
    for path in paths(n, m):
        score = sum(match[i][u] for i, u in enumerate(path))
        score += sum(links[v][u] for v, u in itertools.pairwise(path))
        scores.append((score, path))
    return scores


def dag_loss(match: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor) -> tuple:
    """The log-probability [B], and its gradients: the probability, given the targets, of each (target, node)
    pair [B, M, L] and of each edge [B, L, L]."""
    log_probs, nodes, edges = (torch.zeros(t.shape).double() for t in (target_lengths, match, links))
    for b, sizes in enumerate(zip(node_lengths.tolist(), target_lengths.tolist(), strict=True)):
        scores = path_scores(match[b], links[b], *sizes)
        log_probs[b] = torch.tensor([score for score, _ in scores], dtype=torch.float64).logsumexp(0)
        for score, path in scores if log_probs[b] > -math.inf else ():
            share = math.exp(score - log_probs[b])
            for i, u in enumerate(path):
                nodes[b, i, u] += share
            for v, u in itertools.pairwise(path):
                edges[b, v, u] += share
    return log_probs, nodes, edges


def random_graph(B: int, M: int, L: int, *, seed=0, dtype=torch.float64, scale=1.0, missing=0.0) -> tuple:
    """match [B, M, L] and row-normalised links [B, L, L], with a share of the edges missing (-inf)."""
    generator = torch.Generator().manual_seed(seed)
    match = -torch.rand(B, M, L, generator=generator, dtype=torch.float64) * 5 * scale
    scores = torch.randn(B, L, L, generator=generator, dtype=torch.float64) * scale
    forward = torch.ones(L, L, dtype=torch.bool).triu(1)
    keep = torch.rand(B, L, L, generator=generator) >= missing
    links = scores.masked_fill(~(forward & keep), -math.inf).log_softmax(-1)
    links = links.masked_fill(links.isnan(), -math.inf)  # nodes without a successor
    return match.to(dtype), links.to(dtype)


def expand_sentence(tokens: list[int], targets: list[int], k: int, *, bos: int, eos: int, pad: int) -> dict:
    """States expansion of one unpadded sentence, token by token; the fields are those of StateLayout."""
    originals = [t if t != pad else s for s, t in zip(tokens, targets, strict=True)]
    given = len(tokens)
    if originals[-1] != eos:
        tokens, targets, originals = tokens + [eos], targets + [pad], originals + [eos]
    layout = {name: [] for name in ("tokens", "positions", "copies")}
    layout |= {name: [] for name in ("node_positions", "node_sources", "targets", "first_states")}
    for i, (token, target, original) in enumerate(zip(tokens, targets, originals, strict=True)):
        expanded = target != pad or original in (bos, eos)
        if i < given:
            layout["first_states"].append(len(layout["tokens"]))
        if expanded:
            layout["targets"].append(original)
        for copy in range(1, k + 1) if expanded else [0]:
            if expanded:
                layout["node_positions"].append(len(layout["tokens"]))
                layout["node_sources"].append(i)
            layout["tokens"].append(token)
            layout["positions"].append(i)
            layout["copies"].append(copy)
    return layout


def ctc_log_prob(target: list[float], blank: list[float]) -> float:
    """Log-probability of one target by CTC, summed over all 2^k ways of emitting it or the blank at each
    state: those count that collapse to the target alone, a single run of it."""
    k, total = len(target), 0.0
    for emits in itertools.product((False, True), repeat=k):
        runs = sum(1 for here, before in zip(emits, (False, *emits[:-1]), strict=True) if here and not before)
        if runs == 1:
            total += math.exp(sum(t if emit else b for emit, t, b in zip(emits, target, blank, strict=True)))
    return math.log(total)


def entropy(probs: Tensor) -> float:
    """In bits, one word after the other."""
    return -math.fsum(p * math.log2(p) for p in probs.double().tolist() if p > 0)


def use_of_states(words: Tensor, links: Tensor, targets: Tensor, k: int) -> list[dict[str, float]]:
    """Of each target but the first and the last one, over all paths of one sentence.

    Args:
        words: log-probabilities [L, V] at the nodes; links: [L, L]; targets: [M], with L = M k.
    """
    M, result = len(targets), []
    _, [posterior], _ = dag_loss(torch.zeros(1, M, M * k), links[None], *torch.tensor([[M * k], [M]]))
    for i in range(1, M - 1):
        own = posterior[i, i * k : i * k + k]
        q, probs = own / own.sum(), words[i * k : i * k + k].double().exp()
        bits = torch.tensor([entropy(row) for row in probs], dtype=torch.float64)
        result.append({"entropy": entropy(q), "divergence": entropy(q @ probs) - float(q @ bits)})
    return result
