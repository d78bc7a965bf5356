"""Layers that keep less for the backward pass."""

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from fs_plugins.exlm.encoder import EncoderLayer


class LeanLayer(EncoderLayer):
    """The activations are not kept but computed again in the backward pass: with a feed-forward size of 4 d
    that is a fifth of what a layer keeps. No matrix product is computed twice."""

    def second_half(self, x: Tensor) -> Tensor:
        if not self.training or self.activation_dropout.p > 0.0:
            return super().second_half(x)
        return checkpoint(super().second_half, x, use_reentrant=False, preserve_rng_state=False)
