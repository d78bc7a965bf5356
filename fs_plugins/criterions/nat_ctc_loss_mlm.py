"""The paper's ablation without transitions (section 5.3, table 2): CTC within each expanded token."""

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass

from fs_plugins.criterions.states_criterion import StatesCriterion
from fs_plugins.speed.match_scores import match_scores


@register_criterion("nat_ctc_loss_mlm", dataclass=FairseqDataclass)
class NatCtcLossMLM(StatesCriterion):
    """The k states of each expanded token align to its one target by CTC, with ``<unk>`` as the blank.

    The transition head is not computed: with several GPUs pass --find-unused-parameters.
    """

    trains_transitions = False

    def forward(self, model, sample, reduce=True):
        graph, _ = model(**sample["net_input"], target=sample["target"], transitions=False)
        log_probs = graph.ctc_log_prob(self.task.target_dictionary.unk(), match_scores)
        return self.loss_of(log_probs, graph, sample, reduce)
