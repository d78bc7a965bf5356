"""Output heads."""

from fairseq.models.roberta.model import RobertaLMHead
from torch import Tensor, nn


class StateLMHead(RobertaLMHead):
    """RoBERTa's LM head in two steps, so that the step to the vocabulary can be taken in bounded memory."""

    def transform(self, features: Tensor) -> Tensor:
        """features [..., d] -> [..., d]: dense, activation, layer norm; what the output matrix is applied
        to."""
        return self.layer_norm(self.activation_fn(self.dense(features)))


class TokenHead(nn.Module):
    """Scores of every token of a sentence: one linear layer, as BERT's for SQuAD."""

    def __init__(self, width: int, outputs: int, dropout: float = 0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(width, outputs)

    def forward(self, features: Tensor) -> Tensor:
        """features [B, T, d] -> [B, T, outputs]."""
        return self.out_proj(self.dropout(features))
