"""The paper's ablation without transitions (section 5.3, table 2): CTC within each expanded token."""

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass

from fs_plugins.criterions.states_criterion import StatesCriterion
from fs_plugins.modules.marginals import ctc_targets_log_prob


@register_criterion("nat_ctc_loss_mlm", dataclass=FairseqDataclass)
class NatCtcLossMLM(StatesCriterion):
    """The k states of each expanded token align to its one target by CTC, with ``<unk>`` as the blank.

    The transition head is not computed: with several GPUs pass --find-unused-parameters.
    """

    trains_transitions, alignment = False, "ctc"

    def forward(self, model, sample, reduce=True):
        graph = self.graph(model, sample, transitions=False)
        layout, unk = graph.layout, self.task.target_dictionary.unk()
        words = torch.stack([layout.targets, torch.full_like(layout.targets, unk)], dim=-1)
        own, blank = self.own_scores(graph, words).unbind(2)  # [B, M, k] each
        is_blank = layout.targets == unk
        log_probs = ctc_targets_log_prob(own, blank, is_blank, layout.target_lengths)
        return self.loss_of(log_probs, graph, sample, reduce)
