"""ExLM (section 4 of the paper): a masked language model whose masked tokens are k states each, linked by
learned transitions; and the vanilla masked language model that it is compared with."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .encoder import ACTIVATIONS, Encoder
from .expansion import StateLayout, expand_states
from .graph import StateGraph
from .transitions import edge_mask, transition_log_probs


class LMHead(nn.Module):
    """RoBERTa's LM head: dense, activation, layer norm, and the output matrix, which may be the embedding."""

    def __init__(self, settings, embedding: nn.Embedding):
        super().__init__()
        d, V = settings.encoder_embed_dim, settings.vocab_size
        self.dense = nn.Linear(d, d)
        self.activation = ACTIVATIONS[settings.activation_fn]
        self.layer_norm = nn.LayerNorm(d)
        own = settings.untie_weights_roberta
        self.weight = nn.Linear(d, V, bias=False).weight if own else embedding.weight
        self.bias = nn.Parameter(torch.zeros(V))

    def forward(self, x: Tensor) -> Tensor:
        """Returns scores [..., V] of features [..., d]."""
        return F.linear(self.transform(x), self.weight, self.bias)

    def transform(self, x: Tensor) -> Tensor:
        """Returns the input [..., d] of the output matrix."""
        return self.layer_norm(self.activation(self.dense(x)))


class MLM(nn.Module):
    """The vanilla masked language model. Names of parameters are those of the authors' checkpoints.

    Args:
        settings: with the attributes of ``MLMSettings`` in settings.py; of an ExLM, of ``ExLMSettings``.
        heads: whether to make the LM head, and an ExLM's transitions; a fine-tuning needs neither.
    """

    def __init__(self, settings, heads: bool = True):
        super().__init__()
        self.settings = settings
        self.sentence_encoder = Encoder(settings)
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
        self.k = settings.ext_state_num
        self.links_features = settings.links_feature.split(":")
        if heads:
            d = settings.encoder_embed_dim
            if "position" in self.links_features:
                pad = settings.pad_token_id
                self.link_positional = nn.Embedding(settings.max_positions + pad + 1, d, pad)
                nn.init.normal_(self.link_positional.weight, std=d**-0.5)
            width = d * len(self.links_features)
            self.query_linear, self.key_linear = nn.Linear(width, d), nn.Linear(width, d)
            self.gate_linear = nn.Linear(width, settings.encoder_attention_heads)

    def forward(
        self,
        tokens: Tensor,
        targets: Tensor | None = None,
        transitions: bool = True,
    ) -> StateGraph:
        """Returns the graph of states of a batch of B sentences of T tokens.

        Args:
            tokens: [B, T] int64, right-padded.
            targets: [B, T] int64, the original token where one is to be predicted, else pad. Without it the
                ``<mask>`` tokens are expanded.
            transitions: whether to compute the graph's transitions.

        Raises:
            ValueError: for a sentence without ``<s>``, and one that is longer than ``max_positions`` after
                its expansion.
        """
        layout = self.expand(tokens, targets)
        T, N, most = tokens.shape[1], layout.tokens.shape[1], self.settings.max_positions
        if most < N:
            raise ValueError(
                f"a sentence of {T} tokens is {N} long after its expansion to k = {self.k} states, beyond "
                f"--max-positions {most}: --max-positions {N} would do for this batch, --max-positions "
                f"{self.k * (T + 1)} for any of {T} tokens"
            )
        nodes = self.encode(layout, layout.node_positions)
        return self.link(nodes, layout, transitions)

    def expand(self, tokens: Tensor, targets: Tensor | None = None) -> StateLayout:
        """Returns the layout of the expanded batch; see :meth:`forward` for the arguments."""
        s = self.settings
        masked = tokens.eq(s.mask_token_id) if targets is None else targets.ne(s.pad_token_id)
        ids = {"bos": s.bos_token_id, "eos": s.eos_token_id, "pad": s.pad_token_id}
        originals = tokens if targets is None else targets
        return expand_states(tokens, masked, originals, self.k, **ids)

    def features(self, tokens: Tensor, only_first: bool = False) -> Tensor:
        """Returns the features [B, T, d] of the tokens, those of its first state for an expanded one; or with
        ``only_first`` [B, 1, d] those of the first token."""
        layout = self.expand(tokens)
        first = layout.node_positions[:, :1] if only_first else layout.first_states
        return self.norm(self.encode(layout, first))

    def encode(self, layout: StateLayout, queries: Tensor | None = None) -> Tensor:
        """Returns features before the last layer norm, [B, N, d] of all tokens and states, or [B, R, d] of
        those at ``queries`` [B, R]."""
        is_token = None if layout.sizes.full else layout.tokens.ne(self.settings.pad_token_id)
        return self.sentence_encoder(layout.tokens, self.coordinates(layout), is_token, queries)

    def coordinates(self, layout: StateLayout) -> Tensor:
        """Returns [B, N, 2] where each expanded token stands (section 4.2): its index before the expansion,
        and which copy it is. Without 2D RoPE (table 2) [B, N, 1], the index after the expansion."""
        if self.settings.rope_dimensions == 1:
            return self.token_coordinates(layout.tokens)
        return torch.stack([layout.positions, layout.copies], dim=-1)

    def link(self, nodes: Tensor, layout: StateLayout, transitions: bool = True) -> StateGraph:
        """Returns the graph of nodes with features [B, L, d] before the last layer norm."""
        features = self.norm(nodes)
        states = self.lm_head.transform(features)
        links = self.transitions(features, layout) if transitions else None
        # Views, so that DistributedDataParallel with --find-unused-parameters takes them for used here.
        weight, bias = (p.view_as(p) for p in (self.lm_head.weight, self.lm_head.bias))
        return StateGraph(states, weight, bias, links, layout)

    def transitions(self, features: Tensor, layout: StateLayout) -> Tensor:
        """Returns log-probabilities [B, L, L] of the transitions between nodes with features [B, L, d]."""
        s, inputs = self.settings, {"feature": features}
        if "position" in self.links_features:  # in the expanded sentence, from pad + 1, as fairseq's
            inputs["position"] = self.link_positional(layout.node_positions + s.pad_token_id + 1)
        x = torch.cat([inputs[name] for name in self.links_features], dim=-1)
        L, length = features.shape[1], s.max_transition_length
        edges = edge_mask(s.state_graph, layout.node_lengths, L, self.k, length)
        return transition_log_probs(self.query_linear(x), self.key_linear(x), self.gate_linear(x), edges)
