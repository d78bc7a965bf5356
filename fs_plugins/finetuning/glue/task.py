"""Fine-tuning on GLUE (section 5.2): fairseq's ``sentence_prediction``, with less padding; of a Repeated
MLM (appendix B.2) with the input repeated as in pre-training."""

from dataclasses import dataclass, field

import numpy as np
from fairseq.data import SortDataset
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from fs_plugins.data.datasets import RepeatInputDataset
from fs_plugins.finetuning.glue.metrics import OF_CLASSES, OF_NUMBERS, score
from fs_plugins.finetuning.scored import NamedSplit, ScoredTask


@dataclass
class GlueConfig(SentencePredictionConfig):
    repeat_times: int = field(default=1, metadata={"help": "copies of each token, <s> too (k of the paper)"})
    sentences: int = field(
        default=0, metadata={"help": "of a row, 1 or 2; recorded for predictions of other texts"}
    )
    metrics: str = field(
        default="",
        metadata={
            "help": f"of the labels, joined by commas: of {', '.join(OF_CLASSES)}; with --regression-target "
            f"of {', '.join(OF_NUMBERS)}. The first is logged as score (default: the first of these)"
        },
    )


@register_task("glue", dataclass=GlueConfig)
class GlueTask(ScoredTask, SentencePredictionTask):
    """fairseq's ``sentence_prediction``; validation and test sets are read in the order of their length.

    Validations log ``score``, the first of ``--metrics`` over the whole set, in percent. fairseq's own
    ``--report-mcc`` and the like round to one digit, so that epochs tie, and read the names of classes as
    numbers, which MNLI's, QNLI's and RTE's are not.

    ``--no-shuffle`` keeps the file's order in every split.

    With ``--repeat-times`` every token of the input stands k times in a row. ``--max-positions`` counts
    tokens with their copies, as in pre-training (512 k): sentences of more than max-positions / k tokens are
    left out or, with --shorten-method truncate, cut to that. Raises ValueError for a metric that does not fit
    the labels.
    """

    cfg: GlueConfig
    criterion = "sentence_prediction"

    def __init__(self, cfg, data_dictionary, label_dictionary):
        super().__init__(cfg, data_dictionary, label_dictionary)
        fitting = OF_NUMBERS if cfg.regression_target else OF_CLASSES
        self.metrics = cfg.metrics.split(",") if cfg.metrics else list(fitting)[:1]
        self.metric = self.metrics[0]
        if wrong := [name for name in self.metrics if name not in fitting]:
            given = "with" if cfg.regression_target else "without"
            raise ValueError(f"--metrics {wrong[0]} {given} --regression-target: give {', '.join(fitting)}")
        if "f1" in self.metrics and cfg.num_classes > 2:
            raise ValueError(f"--metrics f1 is of two classes, and --num-classes is {cfg.num_classes}")
        self.called_with = {"features_only": True, "classification_head_name": cfg.classification_head_name}
        self.targets = {}  # split -> fairseq's data set of its labels, if it has some

    def prepare_for(self, checkpoint):
        names = checkpoint.outputs.names if checkpoint.outputs else ()
        classes = tuple(self.label_dictionary.symbols[self.dictionary.nspecial :][: len(names)])
        if {*names} == {*classes} and names != classes:
            raise ValueError(f"the model's classes are {', '.join(names)}, the data's {', '.join(classes)}")

    def load_dataset(self, split, combine=False, **kwargs):
        dataset = super().load_dataset(split, combine, **kwargs)
        rows = dataset.dataset if isinstance(dataset, SortDataset) else dataset
        self.targets[split] = rows.defn.get("target")
        if isinstance(dataset, SortDataset) and split != "train":
            dataset = SortDataset(rows, sort_order=[*dataset.sort_order, *rows.sizes])
        self.datasets[split] = NamedSplit(RepeatInputDataset(dataset, self.cfg.repeat_times), split)
        return self.datasets[split]

    def labels(self, split: str, ids: np.ndarray) -> np.ndarray:
        """Returns the labels of rows of a split: numbers of classes, or numbers."""
        return np.concatenate([np.ravel(self.targets[split][i]) for i in ids])

    def score(self, split, ids, rows):
        """Returns shares and correlations, by their names."""
        predictions = rows.ravel() if self.cfg.regression_target else rows.argmax(1)
        return {name: score(name, predictions, self.labels(split, ids)) for name in self.metrics}

    def logged(self, scores):
        return {"score": 100 * scores.get(self.metric, np.nan)}

    def max_positions(self):
        """Returns the most tokens of a sample before the repetition."""
        return self.cfg.max_positions // self.cfg.repeat_times
