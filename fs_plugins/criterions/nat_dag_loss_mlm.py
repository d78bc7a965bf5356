"""States alignment as a criterion (ExLM, section 4.3): the model makes the graph, the op aligns it; a lattice
needs no alignment."""

from fairseq.criterions import register_criterion

from fs_plugins.criterions.states_criterion import StatesCriterion
from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.custom_ops.match_scores import match_scores
from fs_plugins.modules.lattice import lattice_log_prob


@register_criterion("nat_dag_loss_mlm")
class NatDagLossMLM(StatesCriterion):
    """The likelihood of a sentence's targets under its graph of states, summed over all alignments."""

    trains_transitions, alignment = True, "dag"

    def forward(self, model, sample, reduce=True):
        graph = self.graph(model, sample)
        layout = graph.layout
        steps = getattr(graph, "steps", None)
        if steps is not None:  # not the paper's graph but a lattice
            own = self.own_scores(graph, layout.targets[..., None]).squeeze(2)
            log_probs = lattice_log_prob(own, steps, layout.target_lengths)
        else:
            head = graph.node_states, graph.output_weight, graph.output_bias
            match = match_scores(*head, layout.targets, compiled=graph.is_compiled)
            log_probs = dag_loss(match, graph.links, layout.node_lengths, layout.target_lengths)
        return self.loss_of(log_probs, graph, sample, reduce)
