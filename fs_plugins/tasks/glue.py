"""Fine-tuning on GLUE (section 5.2): fairseq's ``sentence_prediction``, with less padding; of a Repeated
MLM (appendix B.2) with the input repeated as in pre-training."""

from dataclasses import dataclass, field

from fairseq.data import SortDataset
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from fs_plugins.data.length_order import length_keys
from fs_plugins.data.repeated_tokens import RepeatInputDataset


@dataclass
class GlueConfig(SentencePredictionConfig):
    group_by_length: bool = field(
        default=False,
        metadata={"help": "train on batches of rows of about the same length: less padding, faster"},
    )
    repeat_times: int = field(default=1, metadata={"help": "copies of each token, <s> too (k of the paper)"})


@register_task("glue", dataclass=GlueConfig)
class GlueTask(SentencePredictionTask):
    """fairseq's ``sentence_prediction``; validation and test sets are read in the order of their length.

    With ``--group-by-length`` the training set is grouped too, by steps of 8 tokens, in random order within
    a group. ``--no-shuffle`` keeps the file's order in every split.

    With ``--repeat-times`` every token of the input stands k times in a row. ``--max-positions`` counts
    tokens with their copies, as in pre-training (512 k): sentences of more than max-positions / k tokens are
    left out or, with --shorten-method truncate, cut to that.

    Raises:
        ValueError: for k < 1.
    """

    cfg: GlueConfig

    def __init__(self, cfg, data_dictionary, label_dictionary):
        if cfg.repeat_times < 1:
            raise ValueError(f"--repeat-times must be at least 1, got {cfg.repeat_times}")
        super().__init__(cfg, data_dictionary, label_dictionary)

    def load_dataset(self, split, combine=False, **kwargs):
        dataset = super().load_dataset(split, combine, **kwargs)
        if isinstance(dataset, SortDataset):
            [lengths] = dataset.dataset.sizes
            order = [*dataset.sort_order, *length_keys(lengths, split, self.cfg.group_by_length)]
            dataset = SortDataset(dataset.dataset, sort_order=order)
        self.datasets[split] = RepeatInputDataset(dataset, self.cfg.repeat_times)
        return self.datasets[split]

    def max_positions(self):
        """Tokens of a sample before the repetition."""
        return self.cfg.max_positions // self.cfg.repeat_times


@register_task("repeated_sentence_prediction", dataclass=GlueConfig)
class RepeatedSentencePredictionTask(GlueTask):
    """The task ``glue`` under the name that fine-tunings of a Repeated MLM have."""
