"""Layers that keep less for the backward pass, on a CPU with fast dropout."""

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from fs_plugins.exlm.encoder import Attention, EncoderLayer
from fs_plugins.speed.dropout import attention_with_dropout, is_fast


class LeanLayer(EncoderLayer):
    """The activations are not kept but computed again in the backward pass: with a feed-forward size of 4 d
    that is a fifth of what a layer keeps. No matrix product is computed twice."""

    def second_half(self, x: Tensor) -> Tensor:
        if not self.training or self.activation_dropout.p > 0.0:
            return super().second_half(x)
        return checkpoint(super().second_half, x, use_reentrant=False, preserve_rng_state=False)


class LeanAttention(Attention):
    """Weights have the fast dropout on a CPU."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
        if self.training and is_fast(q, self.dropout.p):
            return attention_with_dropout(q, k, v, bias, self.dropout.p)
        return super().attend(q, k, v, bias)
