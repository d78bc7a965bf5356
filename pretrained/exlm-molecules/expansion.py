"""States expansion (ExLM, section 4.2): each masked token, ``<s>`` and ``</s>`` becomes k states."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Sizes(NamedTuple):
    """The sizes of an expanded batch."""

    N: int  # tokens of the longest sentence
    M: int  # targets of the sentence with the most
    full: bool  # whether all sentences have N tokens, so that nothing is padding

    @classmethod
    def of(cls, token_counts: Tensor, target_counts: Tensor, starts_well: Tensor, k: int) -> "Sizes":
        """Returns the sizes by the counts of each sentence, [B] int64: its tokens, with the ``</s>`` that is
        appended if it has none at its end; how many of these are expanded; whether it starts with ``<s>``.
        Raises ValueError if one does not."""
        lengths = torch.add(token_counts, target_counts, alpha=k - 1)
        least, most = torch.stack([lengths, target_counts, starts_well]).aminmax(dim=1)
        (shortest, _, good), (N, M, _) = torch.stack([least, most]).tolist()  # the only sync
        if not good:
            raise ValueError(
                f"sentence {int((starts_well == 0).nonzero()[0])} of the batch does not start with <s>, "
                "where the graph of states begins; for fairseq's sentence_prediction pass --init-token 0"
            )
        return cls(N, M, shortest == N)


@dataclass(frozen=True)
class StateLayout:
    """The layout of an expanded batch: its tokens, states and targets.

    B sentences of T tokens; N and M as of :class:`Sizes`; L = k * M graph nodes. All tensors are int64, on
    the device of the tokens."""

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
    sizes: Sizes


def expand_states(
    tokens: Tensor,
    masked: Tensor,
    originals: Tensor,
    k: int,
    *,
    bos: int,
    eos: int,
    pad: int,
) -> StateLayout:
    """Expands the masked tokens and every ``<s>`` and ``</s>`` of a right-padded batch to k states each.

    A sentence that does not end in ``</s>`` gets one appended, so that its graph ends in a ``</s>`` node
    (appendix P). There is one device-to-host sync, of ``Sizes.of``; the arguments are not modified.

    Args:
        tokens: [B, T] int64, the model's input, padded on the right with ``pad``.
        masked: [B, T] bool, the tokens to predict, whether replaced by ``<mask>``, by another token or kept.
        originals: [B, T] int64, the tokens before masking; read where ``masked``.
        k: states per expanded token, at least 1.
        bos, eos, pad: ids of ``<s>``, ``</s>`` and the pad symbol.

    Raises:
        ValueError: if a sentence does not start with ``<s>``, by ``Sizes.of``.
    """
    T, is_given = tokens.shape[1], tokens != pad
    originals = torch.where(masked, originals, tokens)
    tokens, originals = _end_with_eos(tokens, originals, eos, pad)  # [B, T + 1]
    is_token = tokens != pad
    expanded = ((originals == bos) | (originals == eos) | F.pad(masked, (0, 1))) & is_token

    # Counts up to and including each token: of tokens, expanded tokens, states.
    before, ranks = is_token.cumsum(1), expanded.cumsum(1)
    ends = torch.add(before, ranks, alpha=k - 1)
    starts = F.pad(ends, (1, 0))  # [B, T + 2] index of each token's first state
    target_lengths = ranks[:, -1]
    sizes = Sizes.of(before[:, -1], target_lengths, (originals[:, 0] == bos).long(), k)

    # Expanded token n comes from the first original token whose states end after n: from the last on padding.
    index = torch.arange(sizes.N, device=tokens.device)
    is_state = index < ends[:, -1:]
    source = _count_up_to(ends, sizes.N).clamp(max=T)  # [B, N]
    is_node = expanded.gather(1, source) & is_state

    # Target m stands at the expanded token of rank m + 1; its k nodes follow each other.
    has_target = torch.arange(sizes.M, device=tokens.device) < target_lengths[:, None]
    target_source = _count_up_to(ranks, sizes.M) * has_target  # [B, M]
    node_positions = starts.gather(1, target_source)[:, :, None] + torch.arange(k, device=tokens.device)
    return StateLayout(
        tokens=tokens.gather(1, source).masked_fill(~is_state, pad),
        positions=source * is_state,
        copies=(index - starts.gather(1, source) + 1) * is_node,
        node_positions=(node_positions * has_target[:, :, None]).flatten(1),
        node_sources=target_source.repeat_interleave(k, dim=1),
        node_lengths=target_lengths * k,
        targets=originals.gather(1, target_source).masked_fill(~has_target, pad),
        target_lengths=target_lengths,
        first_states=starts[:, :T].clamp(max=sizes.N - 1) * is_given,
        sizes=sizes,
    )


def _end_with_eos(tokens: Tensor, originals: Tensor, eos: int, pad: int) -> tuple[Tensor, Tensor]:
    """Returns [B, T + 1], with ``</s>`` after the last token of each that does not end in one."""
    tokens, originals = (F.pad(t, (0, 1), value=pad) for t in (tokens, originals))
    lengths = (tokens != pad).sum(1, keepdim=True)  # [B, 1]
    last = originals.gather(1, (lengths - 1).clamp(min=0))
    end = torch.where(last == eos, pad, eos)  # goes after the last token
    return tokens.scatter(1, lengths, end), originals.scatter(1, lengths, end)


def _count_up_to(ends: Tensor, n: int) -> Tensor:
    """Returns [B, n] how many of ends [B, T] are at most 0, 1, ... n - 1."""
    counts = ends.new_zeros(ends.shape[0], n + 1).scatter_add(1, ends.clamp(max=n), torch.ones_like(ends))
    return counts.cumsum(1)[:, :n]
