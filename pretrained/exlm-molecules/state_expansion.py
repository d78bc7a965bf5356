"""States expansion (ExLM, section 4.2): each masked token, ``<s>`` and ``</s>`` becomes k states."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# State embeddings, --state-embedding-scale R (not in the paper): a vector of each state, of initial standard
# deviation VECTOR_STD R, is added before the last layer norm, and a bias of each state to its logits. By the
# bias, states predict different tokens at first (with R = 1 and k = 4 by a divergence of 1 to 2 bits) at any
# width, depth and standard deviation of the embeddings. It is kept in a large unit, so that Adam, whose steps
# are of the size of the rate, moves it as fast as other logits.
VECTOR_STD = 0.5
BIAS_STD, BIAS_UNIT = 2.0, 10.0
DISTANCES = 16  # buckets of the distance between two expanded tokens


@dataclass(frozen=True)
class StateLayout:
    """Where everything of an expanded batch stands.

    B sentences of T tokens; U tokens of the longest sentence before the expansion, with the ``</s>`` that was
    appended if any (U <= T + 1), N after it; M targets of the sentence with the most; L = k * M graph nodes.
    All tensors are int64, on the device of the tokens."""

    tokens: Tensor  # [B, N] token ids after the expansion, padded with the pad symbol
    positions: Tensor  # [B, N] first coordinate: the token's index in the original sentence; 0 on padding
    # [B, N] second coordinate: 1 ... k for the copies of an expanded token, 0 for others and padding.
    copies: Tensor
    node_positions: Tensor  # [B, L] index in the expanded sentence of each node; 0 on padding
    node_sources: Tensor  # [B, L] index in the original sentence of each node's token; 0 on padding
    node_lengths: Tensor  # [B] nodes of each sentence, k * ``target_lengths``
    # [B, M] the original tokens at the expanded positions, in order, padded with the pad symbol
    targets: Tensor
    target_lengths: Tensor  # [B] targets of each sentence
    # [B, T] index in the expanded sentence of each original token, or of its first state if it is expanded; 0
    # on padding. A ``</s>`` that was appended is none of the T.
    first_states: Tensor
    # whether all sentences have N tokens, so that nothing is padding; a plain bool, known without a sync
    full: bool
    # [B, U] token ids before the expansion, each appended ``</s>`` included, padded with the pad symbol
    unexpanded: Tensor
    unexpanded_full: bool  # whether all sentences have U tokens, as ``full``


def gather_tokens(x: Tensor, rows: Tensor) -> Tensor:
    """Returns x [B, N, ...] at the indices rows [B, R] int64, [B, R, ...]."""
    first = torch.arange(x.shape[0], device=x.device)[:, None] * x.shape[1]
    return x.flatten(0, 1).index_select(0, (first + rows).flatten()).unflatten(0, rows.shape)


def expand_states(
    tokens: Tensor,
    masked: Tensor,
    originals: Tensor,
    k: int,
    *,
    bos: int,
    eos: int,
    pad: int,
    room: int | None = None,
    multiple: int = 1,
    most: int = 0,
    counts: Tensor | None = None,
) -> StateLayout:
    """Expands the masked tokens and every ``<s>`` and ``</s>`` of a right-padded batch to k states each.

    A sentence that does not end in ``</s>`` gets one appended, so that its graph ends in a ``</s>`` node
    (appendix P). There is one device-to-host sync without ``counts``; the arguments are not
    modified.

    Args:
        tokens: [B, T] int64, the model's input, padded on the right with ``pad``.
        masked: [B, T] bool, the tokens to predict, whether replaced by ``<mask>``, by another token or kept.
        originals: [B, T] int64, the tokens before masking; read where ``masked``.
        k: states per expanded token, at least 1.
        bos, eos, pad: ids of ``<s>``, ``</s>`` and the pad symbol.
        room: M where the values of tensors cannot be looked at, as in ``torch.export``; sizes are then the
            largest possible, nothing is checked, and a sentence with more targets is cut short.
        multiple: of it are N, U and L, by more padding; above 1, no batch is ``full``.
        most: what N does not exceed by its padding.
        counts: [B, 3] on the CPU, as of ``CountedDataset``, if they are known.

    Raises:
        ValueError: if a sentence does not start with ``<s>``.
    """
    T, is_given = tokens.shape[1], tokens != pad
    more = 1 + -(T + 1) % multiple
    originals = torch.where(masked, originals, tokens)
    tokens, originals = _end_with_eos(tokens, originals, eos, pad, more)  # [B, T + 1] or more
    is_token = tokens != pad
    expanded = (originals == bos) | (originals == eos) | F.pad(masked, (0, more))
    expanded &= is_token

    # Counted up to and with each token: tokens, expanded tokens, states.
    before, ranks = is_token.cumsum(1), expanded.cumsum(1)
    ends = torch.add(before, ranks, alpha=k - 1)
    starts = F.pad(ends, (1, 0))  # where each token's states begin; [B, T + 2]
    lengths, target_lengths = ends[:, -1], ranks[:, -1]
    if room is None:
        if counts is None:
            counts = torch.stack([before[:, -1], target_lengths, originals[:, 0] == bos], 1)
        N, U, M, full, unexpanded_full = _sizes(counts, k, originals[:, 0], bos)
        if multiple > 1:
            N, U = max(N, min(_up(N, multiple), most)), _up(U, multiple)
            M, full, unexpanded_full = _up(M, multiple // math.gcd(multiple, k)), False, False
    else:
        N, U, M, full, unexpanded_full = T + 1 + room * (k - 1), T + 1, room, False, False

    # Expanded token n comes from the first original token whose states end after n: from the last on padding.
    place = torch.arange(N, device=tokens.device).expand(tokens.shape[0], N).contiguous()
    is_state = place < lengths[:, None]
    source = _count_up_to(ends, place, room is None).clamp_(max=T)  # [B, N]
    is_node = expanded.gather(1, source).logical_and_(is_state)

    # Target m stands at the expanded token of rank m + 1; its k nodes follow each other.
    order = torch.arange(M, device=tokens.device).expand(tokens.shape[0], M).contiguous()
    has_target = order < target_lengths[:, None]
    target_source = _count_up_to(ranks, order, room is None).mul_(has_target)  # [B, M]
    first_node = starts.gather(1, target_source)
    node_positions = first_node[:, :, None] + torch.arange(k, device=tokens.device)
    return StateLayout(
        tokens=tokens.gather(1, source).masked_fill(~is_state, pad),
        positions=source * is_state,
        copies=(place - starts.gather(1, source)).add_(1).mul_(is_node),
        node_positions=node_positions.mul_(has_target[:, :, None]).flatten(1),
        node_sources=target_source.repeat_interleave(k, dim=1),
        node_lengths=target_lengths * k,
        targets=originals.gather(1, target_source).masked_fill(~has_target, pad),
        target_lengths=target_lengths,
        first_states=starts[:, :T].clamp(max=N - 1) * is_given,
        full=full,
        unexpanded=tokens[:, :U],
        unexpanded_full=unexpanded_full,
    )


def distance_buckets(places: Tensor) -> Tensor:
    """Puts the distances, in tokens, from each expanded token to the one before and after into buckets.

    1 to 8 have a bucket each, and further ones two for each doubling up to 90; where there is no such token,
    the distance is 1. Not in the paper.

    Args:
        places: [B, M] int64, indices of the expanded tokens in the sentence; 0 on padding.

    Returns:
        [B, M, 2] int64, from 0 to DISTANCES - 1 and from DISTANCES to 2 DISTANCES - 1.
    """
    gaps = (places[:, 1:] - places[:, :-1]).clamp(min=1)
    buckets = torch.where(gaps <= 8, gaps - 1, (2 * (gaps / 8).log2()).long() + 8).clamp(max=DISTANCES - 1)
    return torch.stack([F.pad(buckets, (1, 0)), F.pad(buckets, (0, 1)) + DISTANCES], -1)


def _sizes(counts: Tensor, k: int, first: Tensor, bos: int):
    """Returns N, U, M, and whether all sentences have N and U tokens, by their counts and first tokens."""
    tokens, targets, starts_well = counts.unbind(1)
    lengths = torch.add(tokens, targets, alpha=k - 1)
    least, most = torch.stack([lengths, tokens, targets, starts_well]).aminmax(dim=1)
    (shortest, fewest, _, good), (N, U, M, _) = torch.stack([least, most]).tolist()  # the one sync
    if not good:
        bad = int((starts_well == 0).nonzero()[0])
        raise ValueError(
            f"sentence {bad} of the batch starts with token {int(first[bad])}, not with <s> ({bos}), "
            "where the graph of states begins; for fairseq's sentence_prediction pass --init-token 0"
        )
    return N, U, M, shortest == N, fewest == U


def _count_up_to(ends: Tensor, place: Tensor, search: bool) -> Tensor:
    """Returns [B, N] how many of the sorted ends [B, T] are at most place [B, N]; ONNX cannot search."""
    if search:
        return torch.searchsorted(ends, place, right=True)
    return (ends[:, None] <= place[:, :, None]).sum(2)


def _up(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple


def _end_with_eos(tokens: Tensor, originals: Tensor, eos: int, pad: int, more: int) -> tuple[Tensor, Tensor]:
    """Returns [B, T + more], with ``</s>`` after the last token of each that does not end in one."""
    tokens = F.pad(tokens, (0, more), value=pad)
    originals = F.pad(originals, (0, more), value=pad)
    lengths = (tokens != pad).sum(1, keepdim=True)  # [B, 1]
    last = originals.gather(1, (lengths - 1).clamp_(min=0))
    end = torch.where(last == eos, pad, eos)  # at the first free place
    return tokens.scatter(1, lengths, end), originals.scatter(1, lengths, end)
