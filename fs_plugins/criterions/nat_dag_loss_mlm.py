"""States alignment as a criterion (ExLM, section 4.3)."""

import math
from dataclasses import dataclass, field

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from fs_plugins.criterions.states_criterion import StatesCriterion
from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.custom_ops.match_scores import match_scores


@dataclass
class NatDagLossMLMConfig(FairseqDataclass):
    alignment_penalty: float = field(
        default=0.0,
        metadata={
            "help": "in training, nats taken off the log-probability that a state emits the target of "
            "another token (not in the paper; 0: the paper's loss)",
        },
    )
    alignment_penalty_updates: int = field(
        default=0, metadata={"help": "lower the penalty linearly to 0 over this many updates (0: keep it)"}
    )
    transition_entropy: float = field(
        default=0.0,
        metadata={
            "help": "in training, weight of a reward for the mean entropy of a sentence's transitions, in "
            "nats (not in the paper; 0: the paper's loss)",
        },
    )


@register_criterion("nat_dag_loss_mlm", dataclass=NatDagLossMLMConfig)
class NatDagLossMLM(StatesCriterion):
    """The likelihood of a sentence's targets under its graph of states, summed over all alignments.

    The alignment penalty is this project's, not the paper's: in training only, it is taken off
    ``match[b, i, u]`` where node u is no state of target i's own token. At initialisation a path may put a
    token's target at any other token's states; the penalty keeps their gradients apart until the model tells
    the tokens apart itself. The loss of a penalised update is no likelihood, and at least the paper's loss.
    Logged besides, where a penalty was asked for: ``alignment_penalty``, that of the update in nats.

    The reward for the entropy of transitions is this project's as well, and in training only: it lowers the
    loss of a sentence by ``transition_entropy`` times the mean entropy of the transitions from its nodes (the
    last node has none). Logged besides, where it was asked for: ``transition_entropy``, that mean in nats.

    Args:
        task: fairseq's task.
        alignment_penalty: nats, at least 0; 0 is the paper's loss.
        alignment_penalty_updates: W; in update n (from 0) the penalty is ``alignment_penalty * (1 - n / W)``,
            and 0 from update W on. With W = 0 it stays as it is. The model keeps count of the updates, so
            that resumed runs go on where they stopped.
        transition_entropy: weight of the reward, at least 0; 0 is the paper's loss.

    Raises:
        ValueError: for a penalty, a weight or a number of updates that is negative or not finite, and for
            updates without a penalty.
    """

    def __init__(
        self,
        task,
        alignment_penalty: float = 0.0,
        alignment_penalty_updates: int = 0,
        transition_entropy: float = 0.0,
    ):
        super().__init__(task)
        if not 0.0 <= transition_entropy < math.inf:
            raise ValueError(f"--transition-entropy must be a weight, 0 or more, got {transition_entropy}")
        self.transition_entropy = transition_entropy
        if not 0.0 <= alignment_penalty < math.inf:
            raise ValueError(
                f"--alignment-penalty must be a number of nats, 0 or more, got {alignment_penalty}"
            )
        if alignment_penalty_updates < 0:
            raise ValueError(
                "--alignment-penalty-updates must be 0 (a constant penalty) or more, "
                f"got {alignment_penalty_updates}"
            )
        if alignment_penalty_updates > 0 and alignment_penalty == 0:
            raise ValueError(
                f"--alignment-penalty-updates {alignment_penalty_updates} lowers a penalty, but there is "
                "none: give --alignment-penalty NATS too"
            )
        self.alignment_penalty = alignment_penalty
        self.alignment_penalty_updates = alignment_penalty_updates

    def log_probs(self, model, sample):
        graph = self.graph(model, sample)
        layout, logged = graph.layout, {}
        match = match_scores(graph.node_states, graph.output_weight, graph.output_bias, layout.targets)
        if model.training and self.alignment_penalty > 0:
            penalty = self.penalty(model)
            logged["alignment_penalty"] = penalty * len(match)
            if penalty > 0:  # not yet lowered to 0
                match = match - penalty * others_nodes(*match.shape[1:], device=match.device)
        log_probs = dag_loss(match, graph.links, layout.node_lengths, layout.target_lengths)
        if model.training and self.transition_entropy > 0:
            entropy = mean_entropy(graph.links, layout.node_lengths)
            log_probs = log_probs + self.transition_entropy * entropy * layout.target_lengths
            logged["transition_entropy"] = entropy.detach().sum()
        return log_probs, layout, logged

    def penalty(self, model) -> float:
        """The alignment penalty of the current update, in nats."""
        if self.alignment_penalty_updates == 0:
            return self.alignment_penalty
        return self.alignment_penalty * max(0.0, 1 - model.num_updates / self.alignment_penalty_updates)

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        """Aggregates the logging outputs of all workers and steps."""
        StatesCriterion.reduce_metrics(logging_outputs)
        for name in ("alignment_penalty", "transition_entropy"):
            logs = [log for log in logging_outputs if name in log]
            sentences = sum(log["sample_size"] for log in logs)
            if sentences > 0:
                mean = sum(log[name] for log in logs) / sentences
                metrics.log_scalar(name, mean, sentences, round=3)


def mean_entropy(links: Tensor, node_lengths: Tensor) -> Tensor:
    """[B] mean entropy in nats of the transitions [B, L, L] from each node of a sentence but its last."""
    logs = links.masked_fill(links == -math.inf, 0.0)
    return -(links.exp() * logs).sum((1, 2)) / (node_lengths - 1).clamp(min=1)


def others_nodes(M: int, L: int, device: torch.device | None = None) -> Tensor:
    """[M, L] bool: whether node u is a state of another token than target i's own, with L / M states each."""
    own = torch.eye(M, dtype=torch.bool, device=device)
    return ~own.repeat_interleave(L // M, dim=1)
