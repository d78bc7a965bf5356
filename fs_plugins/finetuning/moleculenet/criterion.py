"""Loss of predicted molecular properties, with missing labels left out."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics

from fs_plugins.model_outputs import totals


@dataclass
class MoleculePropertyCriterionConfig(FairseqDataclass):
    classification_head_name: str = field(default="property", metadata={"help": "name of the head"})


@register_criterion("molecule_property", dataclass=MoleculePropertyCriterionConfig)
class MoleculePropertyCriterion(FairseqCriterion):
    """Cross-entropy, or the squared error of standardised values, summed over labelled entries.

    ``sample_size`` is the number of labelled entries of the batch (molecule x property), so that every label
    weighs the same and a molecule with few labels counts for few. Logged: ``loss`` for each labelled entry
    (bits for classification, squared standard deviations for regression), ``labels`` for each molecule.
    """

    def forward(self, model, sample, reduce=True):
        """Returns the loss (summed, or [B] if not ``reduce``), sample size and what to log."""
        properties = self.task.properties
        outputs, _ = model(**sample["net_input"], **self.task.called_with)  # [B, properties]
        outputs, labels = outputs.float(), sample["target"]
        labelled = ~torch.isnan(labels)
        if properties.regression:  # float64: values may be large and differ little
            mean, std = (labels.new_tensor(x) for x in (properties.mean, properties.std))
            labels = (labels - mean) / std
        labels = torch.where(labelled, labels, 0.0)
        loss = F.mse_loss if properties.regression else F.binary_cross_entropy_with_logits
        losses = loss(outputs, labels.float(), reduction="none")
        losses = torch.where(labelled, losses, 0.0)
        sample_size = labelled.sum()
        logging_output = {
            "loss": losses.detach().sum(),
            "ntokens": sample["ntokens"],
            "nsentences": len(labels),
            "sample_size": sample_size,
            "bits": float(not properties.regression),
        }
        return losses.sum() if reduce else losses.sum(1), sample_size, logging_output

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        loss, labels, molecules, bits = totals(logging_outputs, "loss", "sample_size", "nsentences", "bits")
        unit = math.log(2) if bits else 1.0
        mean = loss / labels / unit if labels > 0 else math.nan  # without one, fairseq logs -1
        metrics.log_scalar("loss", mean, labels, round=4)
        if molecules > 0:
            metrics.log_scalar("labels", labels / molecules, molecules, round=2)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
