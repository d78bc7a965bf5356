"""What is not in the paper: state embeddings, the lattice, expansion after some layers, distances.

Of an ExLM with any of these flags the encoder is the one below; with none of them, the paper's (exlm.py).
"""

from functools import cached_property

import torch
import torch.nn.functional as F
from fairseq.models import register_model
from torch import Tensor, nn

from fs_plugins.models.exlm import ExLMEncoder, ExLMModel, StateGraph
from fs_plugins.modules.encoder import Expansion
from fs_plugins.modules.lattice import StateFeatures, lattice_links, lattice_transitions, linear
from fs_plugins.modules.state_expansion import (
    BIAS_STD,
    BIAS_UNIT,
    DISTANCES,
    VECTOR_STD,
    StateLayout,
    distance_buckets,
)


class ExtendedStateGraph(StateGraph):
    """A graph of states that may have a bias of each state, and may be a lattice.

    ``output_bias`` may be [k, V]: node u has that of state u mod k. ``steps`` are a lattice's transitions,
    [B, M - 1, k, k] float32 log-probabilities from the states of each expanded token to those of the next;
    None of any other graph. ``links`` of a lattice are made from these where they are asked for.
    """

    def __init__(self, node_states, output_weight, output_bias, layout, links=None, steps=None):
        self.node_states, self.output_weight, self.output_bias = node_states, output_weight, output_bias
        self.layout, self.steps = layout, steps
        if steps is None:
            self.links = links

    @cached_property
    def links(self) -> Tensor:
        return lattice_links(self.steps, self.layout.target_lengths)

    def logits(self, sentences: slice = slice(None)) -> Tensor:
        scores = F.linear(self.node_states[sentences], self.output_weight)
        biases = self.output_bias.view(-1, len(self.output_weight))
        return (scores.unflatten(1, (-1, len(biases))) + biases).flatten(1, 2)


class ExtendedExLMEncoder(ExLMEncoder):
    """ExLM with state embeddings, on a lattice, expanded after some layers, or with distances. Raises
    ValueError for a number of layers before the expansion that the encoder does not have."""

    def __init__(self, args, dictionary):
        layers, first, scale = args.encoder_layers, args.expand_from_layer, args.state_embedding_scale
        if not -1 <= first <= layers:
            raise ValueError(
                f"--expand-from-layer {first}: give a number of layers from 0 (the paper's) to "
                f"--encoder-layers {layers}, or -1 for all"
            )
        super().__init__(args, dictionary)
        self.expand_from_layer = layers if first == -1 else first
        last = self.state_graph == "lattice" and self.expand_from_layer == layers
        self.same_features = self.k if last else 1  # how many nodes in a row leave the layers with the same
        self.state_embedding = self.state_bias = None
        if scale > 0:
            self.state_embedding = nn.Parameter(scale * torch.randn(self.k, args.encoder_embed_dim))
            std = BIAS_STD / BIAS_UNIT
            self.state_bias = nn.Parameter(std * scale * torch.randn(self.k, len(dictionary)))

    def embed_places(self) -> None:
        super().embed_places()
        if "distance" in self.links_feature:
            self.link_distance = nn.Embedding(2 * DISTANCES, self.args.encoder_embed_dim)

    def _encode(self, layout: StateLayout, features_only: bool, only_first: bool) -> Tensor:
        """Does as the paper's, but tokens are expanded after the first ``--expand-from-layer`` layers; with
        state embeddings, features of nodes are those before the last layer norm."""
        pad, coordinates = self.dictionary.pad(), self._coordinates(layout)
        non_padding_mask = None if layout.full else layout.tokens.ne(pad)
        tokens, expansion = layout.tokens, None
        if self.expand_from_layer > 0:
            expansion = Expansion(self.expand_from_layer, layout.positions, coordinates, non_padding_mask)
            tokens = layout.unexpanded
            coordinates = self.token_coordinates(tokens)
            non_padding_mask = None if layout.unexpanded_full else tokens.ne(pad)
        queries = self._queries(layout, features_only, only_first)
        if not features_only:
            queries = queries[:, :: self.same_features]
        last_norm = features_only or self.state_embedding is None
        return self.sentence_encoder(tokens, coordinates, non_padding_mask, queries, expansion, last_norm)

    def _graph(self, nodes: Tensor, layout: StateLayout, transitions: bool) -> ExtendedStateGraph:
        """Features of the nodes [B, L, d] (or [B, M, d], one of all states of a token), to which state
        embeddings are added before the last layer norm -> graph."""
        weight, bias = (p.view_as(p) for p in (self.lm_head.weight, self.lm_head.bias))  # as in the paper's
        features = nodes.unflatten(1, (layout.targets.shape[1], -1))  # [B, M, 1 or k, d]
        if self.state_embedding is not None:
            bias = bias + BIAS_UNIT * self.state_bias
            vectors, norm = VECTOR_STD * self.state_embedding, self.sentence_encoder.emb_layer_norm_after
            same = self.same_features > 1
            features = StateFeatures(features, vectors, norm) if same else norm(features + vectors)
        dense = self.lm_head.dense
        states = self.lm_head.after_dense(linear(features, dense.weight, dense.bias))
        states = states.expand(-1, -1, self.k, -1).flatten(1, 2)
        links = steps = None
        if transitions and self.state_graph == "lattice":
            steps = self._steps(features, layout)
        elif transitions:
            links = self._links(features.flatten(1, 2), layout)
        return ExtendedStateGraph(states, weight, bias, layout, links, steps)

    def _steps(self, features: Tensor | StateFeatures, layout: StateLayout) -> Tensor:
        """[B, M - 1, k, k] from the states' features [B, M, 1 or k, d]: the values of ``_links``; linear maps
        are applied once to each token, position and distance, and then added."""
        layers = self.query_linear, self.key_linear, self.gate_linear
        weight, y = (torch.cat([getattr(a, name) for a in layers]) for name in ("weight", "bias"))
        for name, part in zip(self.links_feature, weight.split(self.args.encoder_embed_dim, 1), strict=True):
            if name == "feature":
                y = y + linear(features, part)
            elif name == "distance":
                buckets = distance_buckets(layout.node_sources[:, :: self.k])
                y = y + F.embedding(buckets, F.linear(self.link_distance.weight, part)).sum(2)[:, :, None]
            else:
                first = self.dictionary.pad() + 1
                positions = self.link_positional.weight[first : first + layout.tokens.shape[1]]
                index = layout.node_positions.unflatten(1, (-1, self.k))
                y = y + F.embedding(index, F.linear(positions, part))
        y = y.expand(*layout.targets.shape, self.k, -1)
        return lattice_transitions(*y.split([len(a.weight) for a in layers], -1))

    def _places(self, layout: StateLayout) -> dict[str, Tensor]:
        places = super()._places(layout)
        if "distance" in self.links_feature:
            distances = self.link_distance(distance_buckets(layout.node_sources[:, :: self.k])).sum(2)
            places["distance"] = distances.repeat_interleave(self.k, 1)
        return places


@register_model("p_roberta_ext_denselink")
class ExtendedExLMModel(ExLMModel):
    """An ExLM whose encoder is the paper's unless a flag asks for more."""

    @classmethod
    def choose_encoder(cls, args) -> type[ExLMEncoder]:
        extended = args.state_graph == "lattice" or args.state_embedding_scale > 0
        extended |= args.expand_from_layer != 0 or "distance" in args.links_feature
        return ExtendedExLMEncoder if extended else ExLMEncoder
