"""Fine-tuning on GLUE: fairseq's ``sentence_prediction`` loss, scored over the whole validation set."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.sentence_prediction import (
    SentencePredictionConfig,
    SentencePredictionCriterion,
)
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from fs_plugins.criterions.model_outputs import recorded_outputs

OF_CLASSES = {
    "accuracy": accuracy_score,
    "matthews": matthews_corrcoef,
    "f1": partial(f1_score, zero_division=0.0),
}
OF_NUMBERS = {"spearman": spearmanr, "pearson": pearsonr}
METRICS = (*OF_CLASSES, *OF_NUMBERS)


def score(metric: str, predictions, targets) -> float:
    """A metric of GLUE over a whole set, as scikit-learn and SciPy have it.

    Args:
        metric: of METRICS; ``f1`` is that of class 1.
        predictions: [N] classes, or numbers for ``spearman`` and ``pearson``.
        targets: [N] the same of the truth.

    Returns:
        A share or a correlation, not percent. Where a correlation is not defined, as predictions are all the
        same, 0, which is also what scikit-learn says of Matthews'.

    Raises:
        ValueError: for sets that are empty or of different sizes.
    """
    predictions, targets = np.asarray(predictions), np.asarray(targets)
    if predictions.shape != targets.shape or predictions.ndim != 1 or not len(targets):
        raise ValueError(
            f"predictions {predictions.shape} of targets {targets.shape}: give two of one length"
        )
    if metric in OF_CLASSES:
        return float(OF_CLASSES[metric](targets, predictions))
    if not np.isfinite(predictions).all():
        raise ValueError(
            f"{np.sum(~np.isfinite(predictions))} of {len(predictions)} predictions are not finite"
        )
    if len(targets) < 2 or np.ptp(predictions) == 0 or np.ptp(targets) == 0:
        return 0.0
    return float(OF_NUMBERS[metric](predictions, targets)[0])


@dataclass
class GluePredictionConfig(SentencePredictionConfig):
    glue_metric: ChoiceEnum(METRICS) = field(
        default="accuracy", metadata={"help": "what --best-checkpoint-metric score is"}
    )


@register_criterion("glue_prediction", dataclass=GluePredictionConfig)
class GluePredictionCriterion(SentencePredictionCriterion):
    """``sentence_prediction`` that logs ``score``, ``--glue-metric`` of the whole validation set in percent.

    fairseq's own ``--report-mcc`` and the like round to one digit, so that epochs tie, and read labels as
    numbers, which MNLI's, QNLI's and RTE's are not. Works on one worker, or on several GPUs.

    Raises:
        ValueError: for a correlation of classes, or a metric of classes for --regression-target.
    """

    def __init__(self, cfg: GluePredictionConfig, task):
        super().__init__(cfg, task)
        self.metric = str(cfg.glue_metric)
        fitting = OF_NUMBERS if cfg.regression_target else OF_CLASSES
        if self.metric not in fitting:
            given = "with" if cfg.regression_target else "without"
            raise ValueError(
                f"--glue-metric {self.metric} {given} --regression-target: choose {' or '.join(fitting)}"
            )

    def forward(self, model, sample, reduce=True):
        """Returns the loss, the number of sentences, and what to log: in validation, each prediction."""
        if model.training:
            return super().forward(model, sample, reduce)
        with recorded_outputs(model) as outputs:
            loss, sample_size, logging_output = super().forward(model, sample, reduce)
        [logits] = outputs
        predictions = logits.view(-1).double() if self.regression_target else logits.argmax(dim=1)
        targets = sample["target"].view(-1).to(predictions.dtype)
        logging_output |= {
            "_predictions": predictions.cpu(),
            "_targets": targets.cpu(),
            "_metric": self.metric,
        }
        return loss, sample_size, logging_output

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        """The parent's figures, and the metric over all predictions of the set so far."""
        SentencePredictionCriterion.reduce_metrics(logging_outputs)
        found = [log for log in logging_outputs if "_predictions" in log]
        if not found:
            return
        for name in ("_predictions", "_targets"):
            metrics.log_concat_tensor(name, torch.cat([log[name] for log in found]), dim=0)
        metric = found[0]["_metric"]

        def over_all(meters) -> float:
            predictions, targets = (meters[name].tensor.numpy() for name in ("_predictions", "_targets"))
            return 100 * score(metric, predictions, targets)

        metrics.log_derived("score", over_all)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Predictions are gathered, not summed."""
        return False
