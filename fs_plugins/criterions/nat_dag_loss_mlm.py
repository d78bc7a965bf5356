"""States alignment as a criterion (ExLM, section 4.3)."""

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass

from fs_plugins.criterions.states_criterion import StatesCriterion
from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.speed.match_scores import match_scores


@register_criterion("nat_dag_loss_mlm", dataclass=FairseqDataclass)
class NatDagLossMLM(StatesCriterion):
    """The likelihood of a sentence's targets under its graph of states, summed over all alignments."""

    trains_transitions = True

    def forward(self, model, sample, reduce=True):
        graph, _ = model(**sample["net_input"], target=sample["target"])
        return self.loss_of(graph.log_prob(match_scores, dag_loss), graph, sample, reduce)
