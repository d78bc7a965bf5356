"""Fine-tuning on GLUE (section 5.2): fairseq's ``sentence_prediction``, with less padding."""

from dataclasses import dataclass, field

from fairseq.data import SortDataset
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from fs_plugins.data.length_order import length_keys


@dataclass
class GlueConfig(SentencePredictionConfig):
    group_by_length: bool = field(
        default=False,
        metadata={"help": "train on batches of rows of about the same length: less padding, faster"},
    )


@register_task("glue", dataclass=GlueConfig)
class GlueTask(SentencePredictionTask):
    """fairseq's ``sentence_prediction``; validation and test sets are read in the order of their length.

    With ``--group-by-length`` the training set is grouped too, by steps of 8 tokens, in random order within
    a group. ``--no-shuffle`` keeps the file's order in every split.
    """

    cfg: GlueConfig

    def load_dataset(self, split, combine=False, **kwargs):
        dataset = super().load_dataset(split, combine, **kwargs)
        if isinstance(dataset, SortDataset):
            [lengths] = dataset.dataset.sizes
            order = [*dataset.sort_order, *length_keys(lengths, split, self.cfg.group_by_length)]
            self.datasets[split] = SortDataset(dataset.dataset, sort_order=order)
        return self.datasets[split]
