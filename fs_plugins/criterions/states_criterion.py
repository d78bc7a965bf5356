"""What the criteria of expanded states share: the model's graph, normalisation and logging."""

import logging
import math

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.logging import metrics
from torch import Tensor

logger = logging.getLogger(__name__)


class StatesCriterion(FairseqCriterion):
    """Negative log-likelihood of the targets of each sentence, over its number of targets.

    The loss of a sentence is -log P(targets) / number of targets; the loss of a batch is the sum over its
    sentences, and ``sample_size`` their number. Logged: ``loss`` in bits per target, averaged over
    sentences; ``ppl``; ``targets`` and ``nodes`` per sentence; ``nonfinite``, the count of sentences whose
    log-likelihood is not finite (0 in a healthy run), which are left out of the sum. That of a sentence
    without a path is -inf, and its gradient 0; if it is NaN or inf, the batch's gradient is not finite
    either, so that fairseq skips the update with ``--fp16`` and stops without.
    """

    def graph(self, model, sample, **options):
        """The model's StateGraph of the batch.

        Raises:
            ValueError: if the model has no states.
        """
        graph, _ = model(**sample["net_input"], target=sample["target"], **options)
        if isinstance(graph, Tensor):
            raise ValueError(
                f"{type(self).__name__} needs a model with states (--arch exlm_base, "
                f"p_roberta_ext_denselink_base, ...), not {type(model).__name__}: "
                "train that with --criterion masked_lm"
            )
        return graph

    def loss_of(self, log_probs: Tensor, layout, sample, reduce: bool):
        """What ``forward`` returns: the loss (summed over sentences, or [B] if not ``reduce``), sample size
        and what to log.

        Args:
            log_probs: [B] log-probability (nats) of each sentence's targets.
            layout: the batch's StateLayout.
        """
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
        return loss, sample_size, logging_output

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        """Aggregates the logging outputs of all workers and steps."""
        total = {
            key: sum(log.get(key, 0) for log in logging_outputs)
            for key in ("loss", "sample_size", "targets", "nodes", "nonfinite")
        }
        sentences = total["sample_size"]
        if sentences == 0:
            return
        metrics.log_scalar("loss", total["loss"] / sentences / math.log(2), sentences, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["loss"].avg))
        metrics.log_scalar("targets", total["targets"] / sentences, sentences, round=1)
        metrics.log_scalar("nodes", total["nodes"] / sentences, sentences, round=1)
        metrics.log_scalar_sum("nonfinite", int(total["nonfinite"]), round=0)
        if total["nonfinite"] > 0:
            logger.warning(
                "%d of %d sentences have a log-likelihood that is not finite: with --fp16 "
                "or --bf16 an overflow; else a diverged model (lower --lr or raise --warmup-updates)",
                int(total["nonfinite"]),
                sentences,
            )

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
