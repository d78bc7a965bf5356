"""Fine-tuning of a Repeated MLM (appendix B.2): the input repeated as in pre-training."""

from dataclasses import dataclass, field

from fairseq.tasks import register_task

from fs_plugins.data.repeated_tokens import RepeatInputDataset
from fs_plugins.tasks.glue import GlueConfig, GlueTask


@dataclass
class RepeatedSentencePredictionConfig(GlueConfig):
    repeat_times: int = field(default=1, metadata={"help": "copies of each token, <s> too (k of the paper)"})


@register_task("repeated_sentence_prediction", dataclass=RepeatedSentencePredictionConfig)
class RepeatedSentencePredictionTask(GlueTask):
    """The task ``glue`` with every token of the input k times in a row.

    ``--max-positions`` counts tokens with their copies, as in pre-training (512 k): sentences of more than
    max-positions / k tokens are left out or, with --shorten-method truncate, cut to that.

    Raises:
        ValueError: for k < 1.
    """

    cfg: RepeatedSentencePredictionConfig

    def __init__(self, cfg, data_dictionary, label_dictionary):
        if cfg.repeat_times < 1:
            raise ValueError(f"--repeat-times must be at least 1, got {cfg.repeat_times}")
        super().__init__(cfg, data_dictionary, label_dictionary)

    def load_dataset(self, split, combine=False, **kwargs):
        dataset = super().load_dataset(split, combine, **kwargs)
        self.datasets[split] = RepeatInputDataset(dataset, self.cfg.repeat_times)
        return self.datasets[split]

    def max_positions(self):
        """Tokens of a sample before the repetition."""
        return self.cfg.max_positions // self.cfg.repeat_times
