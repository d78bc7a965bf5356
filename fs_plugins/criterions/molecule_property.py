"""Loss of predicted molecular properties, with missing labels left out."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics


@dataclass
class MoleculePropertyCriterionConfig(FairseqDataclass):
    classification_head_name: str = field(
        default="property", metadata={"help": "name of the classification head"}
    )


@register_criterion("molecule_property", dataclass=MoleculePropertyCriterionConfig)
class MoleculePropertyCriterion(FairseqCriterion):
    """Binary cross-entropy, or the squared error of standardised values, summed over labelled entries.

    ``sample_size`` is the number of labelled entries of the batch (molecule x property), so that every label
    weighs the same and a molecule with few labels counts for few. Logged: ``loss`` for each labelled entry
    (bits for classification, squared standard deviations for regression), ``labels`` for each molecule.
    """

    def __init__(self, cfg: MoleculePropertyCriterionConfig, task):
        super().__init__(task)
        if not hasattr(task, "properties"):
            raise ValueError("--criterion molecule_property goes with --task molecule_property")
        self.head = task.head
        self.properties = task.properties

    def forward(self, model, sample, reduce=True):
        """Returns the loss (summed, or [B] if not ``reduce``), sample size and what to log."""
        # [B, properties]
        outputs, _ = model(**sample["net_input"], **self.head)
        outputs, labels = outputs.float(), sample["target"].float()
        labelled = ~torch.isnan(labels)
        wanted, loss = labels, F.binary_cross_entropy_with_logits
        if self.properties.regression:
            mean, std = (labels.new_tensor(x) for x in (self.properties.mean, self.properties.std))
            wanted, loss = (labels - mean) / std, F.mse_loss
        losses = loss(outputs, torch.where(labelled, wanted, 0.0), reduction="none")
        losses = torch.where(labelled, losses, 0.0)
        sample_size = labelled.sum()
        logging_output = {
            "loss": losses.detach().sum(),
            "ntokens": sample["ntokens"],
            "nsentences": len(labels),
            "sample_size": sample_size,
            "bits": float(not self.properties.regression),
        }
        return losses.sum() if reduce else losses.sum(1), sample_size, logging_output

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        """Aggregates the logging outputs of all workers and steps."""
        total = {
            key: sum(float(log.get(key, 0)) for log in logging_outputs)
            for key in ("loss", "sample_size", "nsentences")
        }
        bits = sum(log.get("bits", 0) for log in logging_outputs) > 0
        if total["sample_size"] > 0:
            unit = math.log(2) if bits else 1.0
            loss = total["loss"] / total["sample_size"] / unit
            metrics.log_scalar("loss", loss, total["sample_size"], round=4)
        if total["nsentences"] > 0:
            labels = total["sample_size"] / total["nsentences"]
            metrics.log_scalar("labels", labels, total["nsentences"], round=2)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
