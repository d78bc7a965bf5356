"""Control, not in the paper: an MLM whose masked tokens are predicted one after another by a small GRU.

The encoder runs once. At each masked token, from left to right, a GRU reads the encoder's features and the
masked token before, and adds to the features what the LM head reads: P(y_1, y_2, ...) is the product of
P(y_i | y_1 ... y_(i-1)), by which tokens depend on each other without states or a graph.
"""

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from fairseq.models import register_model
from torch import Tensor, nn

from fs_plugins.models.mlm import RotaryRobertaModel

WIDTH = 96


@register_model("p_roberta_causal")
class CausalMLM(RotaryRobertaModel):
    """``--arch mlm_causal``: trained with the criterion below."""

    def __init__(self, args, encoder):
        super().__init__(args, encoder)
        d = args.encoder_embed_dim
        self.previous = nn.Embedding(len(encoder.dictionary) + 1, WIDTH)  # the last: there is none before
        self.gru = nn.GRU(d + WIDTH, WIDTH, batch_first=True)
        self.correction = nn.Linear(WIDTH, d)
        nn.init.zeros_(self.correction.weight)  # begins as the MLM
        nn.init.zeros_(self.correction.bias)

    def forward(self, src_tokens: Tensor, target: Tensor | None = None, masked_tokens=None, **kwargs):
        """Returns logits [masked, V] of ``target[masked_tokens]``, each given those before."""
        if target is None:
            return super().forward(src_tokens, masked_tokens=masked_tokens, **kwargs)
        features, extra = self.encoder(src_tokens, features_only=True)
        counts = masked_tokens.sum(1).tolist()
        rows = nn.utils.rnn.pad_sequence(features[masked_tokens].split(counts), True)
        words = nn.utils.rnn.pad_sequence(target[masked_tokens].split(counts), True)
        first = torch.full_like(words[:, :1], self.previous.num_embeddings - 1)
        before = self.previous(torch.cat([first, words[:, :-1]], 1))
        x = rows + self.correction(self.gru(torch.cat([rows, before], -1))[0])
        real = torch.arange(x.shape[1], device=x.device) < masked_tokens.sum(1)[:, None]
        return self.encoder.lm_head(x[real]), extra

    @torch.no_grad()
    def draw(self, src_tokens: Tensor, masked: Tensor, generators) -> list[Tensor]:
        """Returns for each row its masked words [masked] int64, drawn one after another by its generator."""
        rows = self.encoder(src_tokens, features_only=True)[0][masked].split(masked.sum(1).tolist())
        rows = nn.utils.rnn.pad_sequence(rows, True)
        word = torch.full((len(rows),), self.previous.num_embeddings - 1)
        state, drawn = None, []
        for i in range(rows.shape[1]):
            here = rows[:, i : i + 1]
            y, state = self.gru(torch.cat([here, self.previous(word)[:, None]], -1), state)
            probs = self.encoder.lm_head(here + self.correction(y))[:, 0].softmax(-1)
            picked = [torch.multinomial(p, 1, generator=g) for p, g in zip(probs, generators, strict=True)]
            word = torch.cat(picked)
            drawn.append(word)
        return [row[:count] for row, count in zip(torch.stack(drawn, 1), masked.sum(1).tolist(), strict=True)]


@register_criterion("causal_masked_lm", dataclass=MaskedLmConfig)
class CausalMaskedLm(MaskedLmLoss):
    """``masked_lm`` whose model is given the targets, of which it reads those before each."""

    def forward(self, model, sample, reduce=True):
        given = {**sample, "net_input": {**sample["net_input"], "target": sample["target"]}}
        return super().forward(model, given, reduce)
