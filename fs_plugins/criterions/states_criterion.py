"""The base class of criteria on expanded states: the model's graph, normalisation and logging."""

import logging
import math

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.logging import metrics
from fairseq.logging.meters import AverageMeter, type_as
from torch import Tensor

from fs_plugins.criterions.state_use import divergences, entropy, is_word, path_posteriors, state_probs
from fs_plugins.exlm.alignment import own_states
from fs_plugins.model_outputs import totals

logger = logging.getLogger(__name__)

MEASURED = slice(8)  # sentences of a validation batch whose states are measured
COLLAPSED = 1.05  # effective states of a mask, below which there is one


class StatesCriterion(FairseqCriterion):
    """Negative log-likelihood of the targets of each sentence, over its number of targets.

    The loss of a sentence is -log P(targets) / number of targets; the loss of a batch is the sum over its
    sentences, and ``sample_size`` their number. Logged: ``loss`` in bits per target, averaged over the
    sentences whose log-likelihood is finite (inf if there is none); ``ppl``; ``targets`` and ``nodes`` per
    sentence; ``nonfinite``, the number of the other sentences (0 in a healthy run). That of a sentence
    without a path is -inf, and its gradient 0; if it is NaN or inf, the batch's gradient is not finite
    either, so that fairseq skips the update with ``--fp16`` and stops without.

    At validation also, of the masked tokens of each batch's first sentences: ``states``, the effective number
    of states of a mask, 2 to the mean entropy of q (1: collapsed to one; k: all alike), and ``divergence``,
    the Jensen-Shannon divergence of the states' predictions, H[sum q(c) P_c] - sum q(c) H[P_c], in bits. q(c)
    is the probability under the transitions, before any target is known, that state c of masked token i is
    the i-th node of a path, among its k states.
    """

    # Attributes by which its cost is counted, and its checkpoints are measured and exported:
    trains_transitions: bool  # whether the graph's transitions have a gradient

    def loss_of(self, log_probs: Tensor, graph, sample, reduce: bool):
        """Returns the loss (summed over sentences, or [B] if not ``reduce``), sample size and what to log.

        Args:
            log_probs: [B] log-probability (nats) of each sentence's targets.
            graph: the batch's StateGraph.
        """
        layout = graph.layout
        finite = torch.isfinite(log_probs)
        losses = torch.where(finite, -log_probs / layout.target_lengths, 0.0)
        loss = losses.sum() if reduce else losses
        sample_size = len(log_probs)
        logging_output = {
            "loss": losses.detach().sum(),
            "ntokens": sample["ntokens"],
            "nsentences": sample_size,
            "sample_size": sample_size,
            "targets": layout.target_lengths.sum(),
            "nodes": layout.node_lengths.sum(),
            "nonfinite": (~finite).sum(),
        }
        several = layout.node_positions.shape[1] > layout.targets.shape[1]  # states of a token
        if not self.training and several and graph.links is not None:
            logging_output |= self._use_of_states(graph)
        return loss, sample_size, logging_output

    @torch.no_grad()
    def _use_of_states(self, graph) -> dict[str, Tensor]:
        """Returns sums over the masked tokens of the first sentences, as scalars."""
        masked = is_word(graph.layout.targets[MEASURED], self.task.target_dictionary)
        paths, _ = path_posteriors(graph, sentences=MEASURED)
        q = state_probs(own_states(paths, paths.shape[2] // paths.shape[1]))
        return {
            "masked": int(masked.sum()),  # on the host: each meter asks whether it is 0
            "entropy": torch.where(masked, entropy(q), 0).sum(),
            "divergence": divergences(q, masked, graph.log_probs).sum(),
        }

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        names = ("loss", "sample_size", "targets", "nodes", "nonfinite", "masked", "entropy", "divergence")
        total = dict(zip(names, totals(logging_outputs, *names), strict=True))
        sentences = total["sample_size"]
        if sentences == 0:
            return
        _log_mean("loss", total["loss"] / math.log(2), sentences - total["nonfinite"])
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["loss"].avg))
        metrics.log_scalar("targets", total["targets"] / sentences, sentences, round=1)
        metrics.log_scalar("nodes", total["nodes"] / sentences, sentences, round=1)
        if (masked := total["masked"]) > 0:
            metrics.log_scalar("_entropy", total["entropy"] / masked, masked, round=3)
            metrics.log_scalar("divergence", total["divergence"] / masked, masked, round=3)
            metrics.log_derived("states", _effective_states)
        metrics.log_scalar_sum("_nonfinite", total["nonfinite"])
        metrics.log_derived("nonfinite", _nonfinite)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def _log_mean(key: str, total: Tensor, count: Tensor) -> None:
    """Logs total / count (inf if that is 0) as ``metrics.log_scalar`` does, which would ask the GPU for the
    count."""
    for meters in metrics.get_active_aggregators():
        if key not in meters:
            meters.add_meter(key, AverageMeter(round=3), priority=10)
        meter = meters[key]
        meter.val = (total / count).nan_to_num(nan=math.inf, posinf=math.inf)
        meter.sum, meter.count = type_as(meter.sum, total) + total, type_as(meter.count, count) + count


def _nonfinite(meters) -> int:
    """Returns the number of sentences whose log-likelihood is not finite; warns of any."""
    if count := int(meters["_nonfinite"].sum):
        logger.warning(
            "%d sentences have a log-likelihood that is not finite: with --fp16 or --bf16 an overflow; else "
            "a diverged model (lower --lr or raise --warmup-updates)",
            count,
        )
    return count


def _effective_states(meters) -> float:
    """Returns 2 to the mean entropy; warns of a model whose graph gains nothing."""
    states = 2 ** float(meters["_entropy"].avg)
    if states < COLLAPSED:
        logger.warning("the states of a mask have collapsed: %.3f effective states", states)
    return round(states, 2)
