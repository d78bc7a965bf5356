"""The paper's ablation without transitions (section 5.3, table 2): CTC within each expanded token."""

import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor

from fs_plugins.criterions.states_criterion import StatesCriterion
from fs_plugins.custom_ops.match_scores import match_scores


@register_criterion("nat_ctc_loss_mlm", dataclass=FairseqDataclass)
class NatCtcLossMLM(StatesCriterion):
    """The k states of each expanded token align to its one target by CTC, with ``<unk>`` as the blank.

    The transition head is not computed: with several GPUs pass --find-unused-parameters.
    """

    def __init__(self, task):
        super().__init__(task)
        self.blank = task.target_dictionary.unk()

    def log_probs(self, model, sample):
        graph = self.graph(model, sample, transitions=False)
        layout = graph.layout
        B, M = layout.targets.shape
        blank = layout.targets.new_full((B, 1), self.blank)
        wanted = torch.cat([layout.targets, blank], dim=1)
        # [B, M + 1, L]
        match = match_scores(graph.node_states, graph.output_weight, graph.output_bias, wanted)
        states = match.unflatten(2, (M, -1))  # [B, M + 1, M, k]: node L = (target, copy)
        own = states[:, :M].diagonal(dim1=1, dim2=2).transpose(1, 2)  # [B, M, k]
        log_probs = ctc_log_probs(own, states[:, M], layout.targets == self.blank)
        has_target = torch.arange(M, device=own.device) < layout.target_lengths[:, None]
        return torch.where(has_target, log_probs, 0.0).sum(1), layout


def ctc_log_probs(target: Tensor, blank: Tensor, target_is_blank: Tensor) -> Tensor:
    """Log-probability that k states emit one target by CTC: a run of the target, blanks before and after it.

    Args:
        target, blank: [B, M, k] log-probabilities of the target and of the blank at each state.
        target_is_blank: [B, M] bool; there, all k states have to emit it.

    Returns:
        [B, M].
    """
    k = target.shape[-1]
    pairs = torch.stack([blank, target], dim=-1).flatten(0, 1).transpose(0, 1)  # [k, B * M, 2]
    # F.ctc_loss takes its gradient for distributions that sum to 1: over these two symbols, times their mass
    mass = pairs.logsumexp(-1)  # [k, B * M]
    lengths = torch.full((pairs.shape[1],), k, device=target.device)
    ones = torch.ones_like(lengths)
    ctc = F.ctc_loss(pairs - mass[..., None], ones[:, None], lengths, ones, blank=0, reduction="none")
    log_probs = (mass.sum(0) - ctc).view(target_is_blank.shape)
    return torch.where(target_is_blank, blank.sum(-1), log_probs)
