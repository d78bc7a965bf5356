"""Output heads."""

from fairseq.models.roberta.model import RobertaLMHead
from torch import Tensor


class StateLMHead(RobertaLMHead):
    """RoBERTa's LM head in two steps, so that the step to the vocabulary can be taken in bounded memory."""

    def transform(self, features: Tensor) -> Tensor:
        """features [..., d] -> [..., d]: dense, activation, layer norm; what the output matrix is applied
        to."""
        return self.layer_norm(self.activation_fn(self.dense(features)))
