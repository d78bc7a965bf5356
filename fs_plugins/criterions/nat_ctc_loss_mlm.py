"""The paper's ablation without transitions (section 5.3, table 2): CTC within each expanded token."""

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass

from fs_plugins.criterions.states_criterion import StatesCriterion
from fs_plugins.custom_ops.match_scores import match_scores
from fs_plugins.modules.state_alignment import ctc_targets_log_prob


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
        is_blank = layout.targets == self.blank
        return ctc_targets_log_prob(own, states[:, M], is_blank, layout.target_lengths), layout
