"""ExLM (section 4 of the paper): a masked language model whose masked tokens are k states each, linked by
learned transitions; and the vanilla masked language model that it is compared with."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .encoder import ACTIVATIONS, Encoder
from .expansion import Sizes, StateLayout, expand_states
from .graph import StateGraph
from .graphs import GRAPHS


class LMHead(nn.Module):
    """RoBERTa's LM head: dense, activation, layer norm, and the output matrix, which may be the embedding."""

    def __init__(self, settings, embedding: nn.Embedding):
        super().__init__()
        d, V = settings.hidden_size, settings.vocab_size
        self.dense = nn.Linear(d, d)
        self.activation = ACTIVATIONS[settings.hidden_act]
        self.layer_norm = nn.LayerNorm(d, settings.layer_norm_eps)
        tied = settings.tie_word_embeddings
        self.weight = embedding.weight if tied else nn.Linear(d, V, bias=False).weight
        self.bias = nn.Parameter(torch.zeros(V))

    def forward(self, x: Tensor) -> Tensor:
        """Returns scores [..., V] of features [..., d]."""
        return F.linear(self.transform(x), self.weight, self.bias)

    def transform(self, x: Tensor) -> Tensor:
        """Returns what the output matrix is applied to, [..., d]."""
        return self.after_dense(self.dense(x))

    def after_dense(self, x: Tensor) -> Tensor:
        return self.layer_norm(self.activation(x))


class MLM(nn.Module):
    """The vanilla masked language model. Names of parameters are those of the authors' checkpoints.

    Args:
        settings: with the attributes of :class:`fs_plugins.exlm.settings.Settings`.
        heads: whether to make the LM head, and an ExLM's transitions; a fine-tuning needs neither.
    """

    encoder_class: Callable = Encoder

    def __init__(self, settings, heads: bool = True):
        super().__init__()
        self.settings = settings
        self.sentence_encoder = self.encoder_class(settings)
        if heads:
            self.lm_head = LMHead(settings, self.sentence_encoder.embed_tokens)

    def forward(self, tokens: Tensor, masked: Tensor | None = None) -> Tensor:
        """Returns the scores [B, T, V] of tokens [B, T] int64, right-padded; with ``masked`` [B, T] bool
        those [masked, V] of these alone."""
        x = self.features(tokens)
        return self.lm_head(x if masked is None else x[masked])

    def features(self, tokens: Tensor, only_first: bool = False) -> Tensor:
        """Returns the features [B, T, d] of the tokens, or with ``only_first`` [B, 1, d] those of the
        first."""
        return self.norm(self.encode(tokens, tokens.new_zeros(tokens.shape[0], 1) if only_first else None))

    def encode(self, tokens: Tensor, queries: Tensor | None = None) -> Tensor:
        """Returns features before the last layer norm, [B, T, d], or [B, R, d] of those at ``queries`` [B,
        R]."""
        is_token = tokens.ne(self.settings.pad_token_id)
        return self.sentence_encoder(tokens, self.token_coordinates(tokens), is_token, queries)

    def norm(self, x: Tensor) -> Tensor:
        """Applies the last layer norm."""
        return self.sentence_encoder.emb_layer_norm_after(x)

    def token_coordinates(self, tokens: Tensor) -> Tensor:
        """Returns [1, T, rope_dimensions] int64 of tokens without states: index in the sentence, copy 0."""
        index = torch.arange(tokens.shape[1], device=tokens.device)[None]
        return torch.stack([index, torch.zeros_like(index)][: self.settings.rope_dimensions], dim=-1)


class ExLM(MLM):
    """The paper's model: expands the states, encodes them and links them."""

    def __init__(self, settings, heads: bool = True):
        super().__init__(settings, heads)
        self.k = settings.num_states
        self.kind = GRAPHS[settings.state_graph]
        self.links_features = settings.links_feature.split(":")
        if heads and settings.alignment == "dag":
            d = settings.hidden_size
            self.embed_places()
            width = d * len(self.links_features)
            self.query_linear, self.key_linear = nn.Linear(width, d), nn.Linear(width, d)
            self.gate_linear = nn.Linear(width, settings.num_attention_heads)

    def embed_places(self) -> None:
        """Makes the embeddings of places that transitions read beside the nodes' features."""
        if "position" in self.links_features:
            pad = self.settings.pad_token_id
            rows = self.settings.max_position_embeddings + pad + 1
            self.link_positional = nn.Embedding(rows, self.settings.hidden_size, pad)
            nn.init.normal_(self.link_positional.weight, std=self.settings.hidden_size**-0.5)

    def forward(
        self,
        tokens: Tensor,
        targets: Tensor | None = None,
        transitions: bool = True,
        sizes: Callable = Sizes.of,
    ) -> StateGraph:
        """Returns the graph of states of a batch of B sentences of T tokens.

        Args:
            tokens: [B, T] int64, right-padded.
            targets: [B, T] int64, the original token where one is to be predicted, else pad. Without it the
                ``<mask>`` tokens are expanded.
            transitions: whether to compute the graph's transitions.
            sizes: as of :func:`expand_states`.

        Raises:
            ValueError: for a sentence without ``<s>``, and one that is longer than
                ``max_position_embeddings`` after its expansion.
        """
        layout = self.expand(tokens, targets, sizes)
        T, N, most = tokens.shape[1], layout.tokens.shape[1], self.settings.max_position_embeddings
        if most < N:
            raise ValueError(
                f"a sentence of {T} tokens is {N} long after its expansion to k = {self.k} states, beyond "
                f"max_position_embeddings {most}: max_position_embeddings {N} would do for this batch, "
                f"max_position_embeddings {self.k * (T + 1)} for any of {T} tokens"
            )
        nodes = self.encode(layout, layout.node_positions)
        return self.link(nodes, layout, transitions)

    def expand(
        self, tokens: Tensor, targets: Tensor | None = None, sizes: Callable = Sizes.of
    ) -> StateLayout:
        """Returns where the states of a batch stand; see :meth:`forward` for the arguments."""
        s = self.settings
        masked = tokens.eq(s.mask_token_id) if targets is None else targets.ne(s.pad_token_id)
        ids = {"bos": s.bos_token_id, "eos": s.eos_token_id, "pad": s.pad_token_id}
        originals = tokens if targets is None else targets
        return expand_states(tokens, masked, originals, self.k, **ids, sizes=sizes)

    def features(self, tokens: Tensor, only_first: bool = False, sizes: Callable = Sizes.of) -> Tensor:
        """Returns the features [B, T, d] of the tokens, those of its first state for an expanded one; or with
        ``only_first`` [B, 1, d] those of the first token."""
        layout = self.expand(tokens, sizes=sizes)
        first = layout.node_positions[:, :1] if only_first else layout.first_states
        return self.norm(self.encode(layout, first))

    def encode(self, layout: StateLayout, queries: Tensor | None = None) -> Tensor:
        """Returns features before the last layer norm, [B, N, d] of all tokens and states, or [B, R, d] of
        those at ``queries`` [B, R]."""
        is_token = self.is_token(layout)
        return self.sentence_encoder(layout.tokens, self.coordinates(layout), is_token, queries)

    def is_token(self, layout: StateLayout) -> Tensor | None:
        """Returns [B, N] bool, False on padding; None where there is none."""
        return None if layout.sizes.full else layout.tokens.ne(self.settings.pad_token_id)

    def coordinates(self, layout: StateLayout) -> Tensor:
        """Returns [B, N, 2] where each expanded token stands (section 4.2): its index before the expansion,
        and which copy it is. Without 2D RoPE (table 2) [B, N, 1], the index after the expansion."""
        if self.settings.rope_dimensions == 1:
            return self.token_coordinates(layout.tokens)
        return torch.stack([layout.positions, layout.copies], dim=-1)

    def link(self, nodes: Tensor, layout: StateLayout, transitions: bool = True) -> StateGraph:
        """Returns the graph of nodes with features [B, L, d] before the last layer norm."""
        features = self.node_features(nodes)
        states, links = self.head_states(features), None
        if transitions:
            projected = self.project(features, layout)
            links = self.kind.transitions(*projected, layout, self.k, self.settings.max_transition_length)
        # Views, so that DistributedDataParallel with --find-unused-parameters takes them for used here.
        weight, bias = (p.view_as(p) for p in (self.lm_head.weight, self.lm_head.bias))
        return StateGraph(states, weight, self.node_bias(bias), links, layout, self.kind)

    def node_features(self, nodes: Tensor) -> Tensor:
        """Returns the features [B, L, d] of nodes after the last layer norm."""
        return self.norm(nodes)

    def head_states(self, features: Tensor) -> Tensor:
        """Returns what the output matrix is applied to, [B, L, d]."""
        return self.lm_head.transform(features)

    def node_bias(self, bias: Tensor) -> Tensor:
        """Returns the bias of the nodes' logits, given that of the LM head."""
        return bias

    def project(self, features: Tensor, layout: StateLayout) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries and keys [B, L, d] and gates [B, L, H] of nodes with features [B, L, d]."""
        places = self.places(layout)
        x = torch.cat([places.get(name, features) for name in self.links_features], dim=-1)
        return self.query_linear(x), self.key_linear(x), self.gate_linear(x)

    def places(self, layout: StateLayout) -> dict[str, Tensor]:
        """Returns embeddings [B, L, d] of the nodes' places, by name; numbered over the whole expanded
        sentence, from pad + 1, as fairseq numbers tokens."""
        if "position" not in self.links_features:
            return {}
        return {"position": self.link_positional(layout.node_positions + self.settings.pad_token_id + 1)}
