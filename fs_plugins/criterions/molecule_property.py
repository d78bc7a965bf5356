"""Loss of predicted molecular properties, with missing labels left out."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from fs_plugins.criterions.property_metrics import summarise


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
    (bits for classification, squared standard deviations for regression), ``labels`` for each molecule; in
    validation, over the whole split and all workers, ``auc`` (0 to 1; the mean over the properties that have
    labels of both classes, whose number is ``scored_properties``), or ``rmse`` and ``mae`` in the labels'
    own units.
    """

    def __init__(self, cfg: MoleculePropertyCriterionConfig, task):
        super().__init__(task)
        if not hasattr(task, "properties"):
            raise ValueError("--criterion molecule_property goes with --task molecule_property")
        self.head = cfg.classification_head_name
        self.properties = task.properties

    def forward(self, model, sample, reduce=True):
        """Returns the loss (summed, or [B] if not ``reduce``), sample size and what to log."""
        # [B, properties]
        outputs, _ = model(**sample["net_input"], features_only=True, classification_head_name=self.head)
        outputs, labels = outputs.float(), sample["target"].float()
        labelled = ~torch.isnan(labels)
        losses = self.losses(outputs, labels, labelled)
        loss = losses.sum() if reduce else losses.sum(1)
        sample_size = labelled.sum()
        logging_output = {
            "loss": losses.detach().sum(),
            "ntokens": sample["ntokens"],
            "nsentences": len(labels),
            "sample_size": sample_size,
            "bits": float(not self.properties.regression),
        }
        if not model.training:
            for name, rows in (
                ("scores", self.in_units(outputs.detach())),
                ("targets", labels.nan_to_num(0.0)),
                ("labelled", labelled),
            ):
                logging_output[name] = _in_their_rows(rows, sample["id"], int(sample["split_size"][0]))
        return loss, sample_size, logging_output

    def losses(self, outputs: Tensor, labels: Tensor, labelled: Tensor) -> Tensor:
        """[B, properties], 0 where there is no label."""
        wanted, loss = labels, F.binary_cross_entropy_with_logits
        if self.properties.regression:
            mean, std = self.scale(labels)
            wanted, loss = (labels - mean) / std, F.mse_loss
        losses = loss(outputs, torch.where(labelled, wanted, 0.0), reduction="none")
        return torch.where(labelled, losses, 0.0)

    def in_units(self, outputs: Tensor) -> Tensor:
        """Outputs [B, properties] as the labels are: values of a regression; else the logits they are."""
        mean, std = self.scale(outputs)  # 0 and 1 for classes
        return outputs * std + mean

    def scale(self, like: Tensor) -> tuple[Tensor, Tensor]:
        return like.new_tensor(self.properties.mean), like.new_tensor(self.properties.std)

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        """Aggregates the logging outputs of all workers; the metrics are computed once all batches are in."""
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
        if not any("scores" in log for log in logging_outputs):
            return
        tables = {
            key: sum(log[key].cpu() for log in logging_outputs if key in log)
            for key in ("scores", "targets", "labelled")
        }
        # Named by their size: fairseq also adds up all splits of --valid-subset, in one place for all.
        rows = len(tables["scores"])
        for key, table in tables.items():
            metrics.log_scalar_sum(f"_{key}_{rows}", table)
        metrics.log_scalar_sum(f"_molecules_{rows}", total["nsentences"])
        for name in ("auc", "scored_properties") if bits else ("rmse", "mae", "scored_properties"):
            metrics.log_derived(name, _metric(name, rows, total["nsentences"], regression=not bits))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Yes, the predictions too: each stands in its molecule's row, which no other batch fills."""
        return True


def _in_their_rows(values: Tensor, ids: Tensor, split_size: int) -> Tensor:
    """[B, properties] -> float64 [split_size, properties], zero in the rows of other batches."""
    table = torch.zeros(split_size, values.shape[1], dtype=torch.float64, device=values.device)
    table[ids] = values.double()
    return table


def _metric(name: str, rows: int, batch: float, regression: bool):
    """What fairseq calls with the meters of each batch of so many molecules, and with those of the split: NaN
    for a batch, whose AUC nobody reads (of 617 properties it takes seconds)."""

    def compute(meters) -> float:
        if meters[f"_molecules_{rows}"].sum == batch < rows:
            return math.nan
        scores, targets, labelled = (
            meters[f"_{key}_{rows}"].sum.numpy() for key in ("scores", "targets", "labelled")
        )
        targets = np.where(labelled > 0, targets, np.nan)
        return round(summarise(scores, targets, regression).get(name, math.nan), 6)

    return compute
