"""States of tokens that all layers see once: what is linear is computed once for each token, not each
state."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fs_plugins.exlm.expansion import StateLayout
from fs_plugins.exlm.extended import VECTOR_STD, ExtendedExLM, distance_buckets


class StateFeatures:
    """norm(x + v) [B, M, k, d] of tokens that the layers left with one x each, for the vector v of each of
    their k states. Never materialised: a linear map of it is the sum of the maps of the centred x and v,
    divided by each state's standard deviation.

    Args:
        x: [B, M, 1, d].
        v: [k, d].
        norm: the layer norm.
    """

    def __init__(self, x: Tensor, v: Tensor, norm: nn.LayerNorm):
        dtype, self.norm = x.dtype, norm
        with torch.autocast(device_type=x.device.type, enabled=False):
            x, v = (t.to(torch.promote_types(dtype, torch.float32)) for t in (x, v))  # layer norms do so too
            x, v = (t - t.mean(-1, keepdim=True) for t in (x, v))
            both = x.square().mean(-1, keepdim=True) + v.square().mean(-1) + 2 / x.shape[-1] * F.linear(x, v)
            self.scale = (both.mT + norm.eps).rsqrt().to(dtype)  # [B, M, k, 1]
            self.x, self.v = ((norm.weight * t).to(dtype) for t in (x, v))

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Returns [B, M, k, n] by a weight [n, d] and a bias [n]."""
        y = F.linear(self.x, weight) + F.linear(self.v, weight)
        return y * self.scale + F.linear(self.norm.bias, weight, bias)


def is_late(model: nn.Module) -> bool:
    """Returns whether a model's k states of a token leave the layers alike, and vectors tell them apart."""
    late = isinstance(model, ExtendedExLM) and model.first == model.settings.num_hidden_layers
    return late and model.state_embedding is not None


class LateStates(ExtendedExLM):
    """An ExLM with state embeddings, expanded after all layers."""

    def node_features(self, nodes: Tensor) -> StateFeatures:
        x = nodes.unflatten(1, (-1, self.k))[:, :, :1]
        return StateFeatures(x, VECTOR_STD * self.state_embedding, self.sentence_encoder.emb_layer_norm_after)

    def head_states(self, features: StateFeatures) -> Tensor:
        dense = self.lm_head.dense
        return self.lm_head.after_dense(features.linear(dense.weight, dense.bias)).flatten(1, 2)

    def project(self, features: StateFeatures, layout: StateLayout) -> tuple[Tensor, Tensor, Tensor]:
        """Does what the plain model does; linear maps are applied once to each token, position and distance,
        and then added."""
        layers = self.query_linear, self.key_linear, self.gate_linear
        weight, y = (torch.cat([getattr(a, name) for a in layers]) for name in ("weight", "bias"))
        for name, part in zip(self.links_features, weight.split(self.settings.hidden_size, 1), strict=True):
            if name == "feature":
                y = y + features.linear(part)
            elif name == "distance":
                buckets = distance_buckets(layout.node_sources[:, :: self.k])
                y = y + F.embedding(buckets, F.linear(self.link_distance.weight, part)).sum(2)[:, :, None]
            else:
                first = self.settings.pad_token_id + 1
                positions = self.link_positional.weight[first : first + layout.tokens.shape[1]]
                index = layout.node_positions.unflatten(1, (-1, self.k))
                y = y + F.embedding(index, F.linear(positions, part))
        y = y.expand(*layout.targets.shape, self.k, -1).flatten(1, 2)
        return y.split([len(a.weight) for a in layers], -1)
