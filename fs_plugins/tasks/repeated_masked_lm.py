"""Repeated MLM (section 3): each token k times, then masked at rate p."""

from dataclasses import dataclass, field

from fairseq.logging import metrics
from fairseq.tasks import register_task
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from fs_plugins.data.datasets import RepeatTokensDataset, corrupted_tokens
from fs_plugins.model_outputs import totals


@dataclass
class RepeatedMaskedLMConfig(MaskedLMConfig):
    repeat_times: int = field(default=1, metadata={"help": "copies of each token, <s> too (k of the paper)"})


@register_task("repeated_masked_lm", dataclass=RepeatedMaskedLMConfig)
class RepeatedMaskedLMTask(MaskedLMTask):
    """fairseq's ``masked_lm`` on sentences whose every token, ``<s>`` too, stands k times in a row.

    ``--tokens-per-sample`` counts tokens before the repetition, so a sample is up to k times as long. Logged
    besides: ``corrupted``, the proportion of tokens whose k copies are all masked (p^k, appendix C).
    """

    cfg: RepeatedMaskedLMConfig

    def _load_dataset_split(self, split, epoch, combine):
        return RepeatTokensDataset(super()._load_dataset_split(split, epoch, combine), self.cfg.repeat_times)

    def max_positions(self):
        """Returns the most tokens of a sample, with the copies."""
        return self.cfg.tokens_per_sample * self.cfg.repeat_times

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        result = super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)
        return self._with_corruption(sample, result)

    def valid_step(self, sample, model, criterion):
        return self._with_corruption(sample, super().valid_step(sample, model, criterion))

    def _with_corruption(self, sample, result):
        """Adds the counts of corrupted and of all tokens, before the repetition, to the logging output."""
        loss, sample_size, logging_output = result
        k, pad = self.cfg.repeat_times, self.source_dictionary.pad()
        corrupted = corrupted_tokens(sample["target"], k, pad).sum()
        counts = {"corrupted": corrupted, "original_tokens": sample["ntokens"] // k}
        return loss, sample_size, {**logging_output, **counts}

    def reduce_metrics(self, logging_outputs, criterion):
        super().reduce_metrics(logging_outputs, criterion)
        corrupted, tokens = totals(logging_outputs, "corrupted", "original_tokens")
        if tokens > 0:
            metrics.log_scalar("corrupted", corrupted / tokens, tokens, round=5)
