"""fairseq's ``masked_lm`` that also logs how many masked tokens are predicted (figure 9)."""

from fairseq.criterions import register_criterion
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from fairseq.logging import metrics

from fs_plugins.model_outputs import recorded_outputs, totals


@register_criterion("masked_lm_accuracy", dataclass=MaskedLmConfig)
class MaskedLmAccuracy(MaskedLmLoss):
    """The loss, gradient and figures of ``masked_lm``, unchanged; logged besides:

    ``accuracy``, the percentage of masked tokens whose most probable word is the right one.
    """

    def forward(self, model, sample, reduce=True):
        with recorded_outputs(model) as outputs:  # the logits of the one forward pass that masked_lm makes
            loss, sample_size, logging_output = super().forward(model, sample, reduce)
        target = sample["target"]
        masked = target.ne(self.padding_idx)
        # If no token is masked, masked_lm has logits of other tokens, which count for nothing.
        right = outputs[0].argmax(-1) == target[masked] if sample_size else masked.new_zeros(1)
        return loss, sample_size, {**logging_output, "right": right.sum()}

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        MaskedLmLoss.reduce_metrics(logging_outputs)
        right, tokens = totals(logging_outputs, "right", "sample_size")
        if tokens > 0:
            metrics.log_scalar("accuracy", 100 * right / tokens, tokens, round=2)
