"""What is not in the paper: state embeddings, expansion after some layers, distances.

Of an ExLM with any of these the model is the one below; with none of them, the paper's (model.py).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .encoder import Encoder, gather_tokens
from .expansion import StateLayout
from .model import MLM, ExLM

# State embeddings, ``state_embedding_scale`` R: a vector of each state, of initial standard deviation
# VECTOR_STD R, is added before the last layer norm, and a bias of each state to its logits. By the bias,
# states predict different tokens at first (with R = 1 and k = 4 by a divergence of 1 to 2 bits) at any width,
# depth and standard deviation of the embeddings. It is kept in a large unit, so that Adam, whose steps are of
# the size of the rate, moves it as fast as other logits.
VECTOR_STD = 0.5
BIAS_STD, BIAS_UNIT = 2.0, 10.0
DISTANCES = 16  # buckets of the distance between two expanded tokens


def make_model(settings, heads: bool = True) -> MLM:
    """Returns the model of these settings; see :class:`MLM` for the arguments."""
    if settings.num_states is None:
        return MLM(settings, heads)
    ours = settings.state_embedding_scale > 0 or settings.expand_from_layer != 0
    ours = ours or "distance" in settings.links_feature
    return (ExtendedExLM if ours else ExLM)(settings, heads)


class LateEncoder(Encoder):
    """An encoder between whose layers tokens are copied into their states."""

    def forward(
        self,
        tokens: Tensor,
        coordinates: Tensor,
        is_token: Tensor | None,
        queries: Tensor | None,
        first: int,
        sources: Tensor,
        copies: tuple[Tensor, Tensor | None],
    ) -> Tensor:
        """Does as :class:`Encoder`, but after the ``first`` layers each of N tokens becomes a copy of that of
        the U tokens which ``sources`` [B, N] names; ``copies``: their coordinates, and which are tokens."""
        x = self.dropout(self.embed_tokens(tokens))
        x = gather_tokens(self.run(self.layers[:first], x, coordinates, is_token), sources)
        return self.run(self.layers[first:], x, *copies, queries)


class ExtendedExLM(ExLM):
    """ExLM with state embeddings, expanded after some layers, or with distances."""

    def __init__(self, settings, heads: bool = True):
        first = settings.expand_from_layer
        self.first = settings.num_hidden_layers if first == -1 else first
        self.encoder_class = LateEncoder if self.first else Encoder
        super().__init__(settings, heads)
        self.state_embedding = self.state_bias = None
        if heads and settings.state_embedding_scale > 0:
            self.state_embedding = nn.Parameter(torch.zeros(self.k, settings.hidden_size))
            self.state_bias = nn.Parameter(torch.zeros(self.k, settings.vocab_size))

    def reset_states(self) -> None:
        """Draws the initial embeddings and biases of the states, which are alike until then."""
        scale = self.settings.state_embedding_scale
        nn.init.normal_(self.state_embedding, std=scale)
        nn.init.normal_(self.state_bias, std=BIAS_STD / BIAS_UNIT * scale)

    def embed_places(self) -> None:
        super().embed_places()
        if "distance" in self.links_features:
            self.link_distance = nn.Embedding(2 * DISTANCES, self.settings.hidden_size)

    def encode(self, layout: StateLayout, queries: Tensor | None = None) -> Tensor:
        if not self.first:
            return super().encode(layout, queries)
        tokens, copies = layout.unexpanded, (self.coordinates(layout), self.is_token(layout))
        is_token = None if layout.sizes.unexpanded_full else tokens.ne(self.settings.pad_token_id)
        where = self.token_coordinates(tokens), is_token, queries
        return self.sentence_encoder(tokens, *where, self.first, layout.positions, copies)

    def node_features(self, nodes: Tensor) -> Tensor:
        if self.state_embedding is None:
            return self.norm(nodes)
        by_token = nodes.unflatten(1, (-1, self.k))
        return self.norm(by_token + VECTOR_STD * self.state_embedding).flatten(1, 2)

    def node_bias(self, bias: Tensor) -> Tensor:
        return bias if self.state_bias is None else bias + BIAS_UNIT * self.state_bias

    def places(self, layout: StateLayout) -> dict[str, Tensor]:
        places = super().places(layout)
        if "distance" in self.links_features:
            distances = self.link_distance(distance_buckets(layout.node_sources[:, :: self.k])).sum(2)
            places["distance"] = distances.repeat_interleave(self.k, 1)
        return places


def distance_buckets(indices: Tensor) -> Tensor:
    """Puts the distances, in tokens, from each expanded token to the one before and after into buckets.

    1 to 8 have a bucket each, and further ones two for each doubling up to 90; where there is no such token,
    the distance is 1.

    Args:
        indices: [B, M] int64, of the expanded tokens in the sentence; 0 on padding.

    Returns:
        [B, M, 2] int64, from 0 to DISTANCES - 1 and from DISTANCES to 2 DISTANCES - 1.
    """
    gaps = (indices[:, 1:] - indices[:, :-1]).clamp(min=1)
    buckets = torch.where(gaps <= 8, gaps - 1, (2 * (gaps / 8).log2()).long() + 8).clamp(max=DISTANCES - 1)
    return torch.stack([F.pad(buckets, (1, 0)), F.pad(buckets, (0, 1)) + DISTANCES], -1)
