"""SQuAD 2.0 (section 5.2) as a loss: where the answer begins and ends, or that there is none."""

import math

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics

from fs_plugins.finetuning.squad.windows import NO_LABEL
from fs_plugins.model_outputs import totals


@register_criterion("squad2", dataclass=FairseqDataclass)
class Squad2Criterion(FairseqCriterion):
    """Cross entropy of the answer's first and of its last token, each over the tokens of the window's context
    and ``<s>``, which stands for no answer (as in BERT); the mean of both, summed over windows.

    Logged: ``loss`` in bits, averaged over windows, and ``span_accuracy``, the percentage of windows both of
    whose ends have the highest score. ``sample_size`` is the number of windows with a label.
    """

    def forward(self, model, sample, reduce=True):
        """Returns the loss (summed over windows, or [B] if not ``reduce``), sample size and what to log."""
        # [B, T, 2]: of each token as first and as last of the span
        scores, _ = model(**sample["net_input"], **self.task.called_with)
        scores = scores.float().masked_fill(~sample["allowed"][:, :, None], -math.inf).unbind(2)
        target = sample["target"]
        losses = sum(
            F.cross_entropy(scores[i], target[:, i], ignore_index=NO_LABEL, reduction="none") for i in (0, 1)
        )
        losses = losses / 2
        labelled = target[:, 0] != NO_LABEL
        right = torch.stack([scores[i].argmax(1) == target[:, i] for i in (0, 1)]).all(0) & labelled
        sample_size = labelled.sum()
        logging_output = {
            "loss": losses.detach().sum(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": sample_size,
            "right": right.sum(),
        }
        return losses.sum() if reduce else losses, sample_size, logging_output

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        loss, windows, right = totals(logging_outputs, "loss", "sample_size", "right")
        bits = loss / windows / math.log(2) if windows > 0 else math.nan  # without one, fairseq logs -1
        metrics.log_scalar("loss", bits, windows, round=3)
        if windows > 0:
            metrics.log_scalar("span_accuracy", 100 * right / windows, windows, round=1)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
