"""ExLM: a masked language model whose masked tokens are k states each, linked by learned transitions.

A batch is expanded (modules/state_expansion.py), encoded (modules/encoder.py) and linked (modules/
transition_head.py), in this order, by ``ExLMEncoder.forward``, which ``model(...)`` calls.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from fairseq.models import register_model
from fairseq.modules import PositionalEmbedding
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, nn

from fs_plugins.models.flags import EXLM_FLAGS
from fs_plugins.models.mlm import RotaryRobertaEncoder, RotaryRobertaModel
from fs_plugins.modules.encoder import Expansion
from fs_plugins.modules.fused_linear import fused_linear
from fs_plugins.modules.lattice import StateFeatures, lattice_links, lattice_transitions, linear
from fs_plugins.modules.state_expansion import (
    BIAS_STD,
    BIAS_UNIT,
    DISTANCES,
    VECTOR_STD,
    StateLayout,
    distance_buckets,
    expand_states,
    gather_tokens,
)
from fs_plugins.modules.transition_head import edge_mask, transition_log_probs


@dataclass
class StateGraph:
    """The graph of states of a batch, before the step to the vocabulary."""

    node_states: Tensor  # [B, L, d] what the output matrix is applied to, at each node
    output_weight: Tensor  # [V, d]
    output_bias: Tensor  # [V], or [k, V] with one of each state: node u has that of state u mod k
    # float32 log-probabilities of the transitions: [B, L, L], -inf where there is no edge, or for a lattice
    # [B, M - 1, k, k], from the states of each expanded token to those of the next; None if not asked for
    transitions: Tensor | None
    layout: StateLayout  # where nodes and targets stand

    def __getitem__(self, index: int) -> Tensor:
        """The first is a tensor, as the hooks of fairseq's search for what is not finite expect."""
        return (self.node_states,)[index]

    @property
    def is_lattice(self) -> bool:
        return self.transitions is not None and self.transitions.dim() == 4

    @cached_property
    def links(self) -> Tensor | None:
        """[B, L, L] transitions of any graph."""
        if self.is_lattice:
            return lattice_links(self.transitions, self.layout.target_lengths)
        return self.transitions

    def logits(self, sentences: slice = slice(None)) -> Tensor:
        """[B, L, V] scores of the vocabulary at each node; for analysis, training needs only the targets'."""
        scores = F.linear(self.node_states[sentences], self.output_weight)
        biases = self.output_bias.view(-1, len(self.output_weight))
        return (scores.unflatten(1, (-1, len(biases))) + biases).flatten(1, 2)

    def log_probs(self, b: int) -> Tensor:
        """[L of sentence b, V] log-probabilities of the vocabulary at each node, float32."""
        logits = self.logits(slice(b, b + 1))[0, : int(self.layout.node_lengths[b])]
        return logits.float().log_softmax(-1)


class ExLMEncoder(RotaryRobertaEncoder):
    """Expands the states, encodes them and links them."""

    def __init__(self, args, dictionary):
        super().__init__(args, dictionary)
        d, H = args.encoder_embed_dim, args.encoder_attention_heads
        self.k = args.ext_state_num
        layers = args.encoder_layers
        if not -1 <= args.expand_from_layer <= layers:
            raise ValueError(
                f"--expand-from-layer {args.expand_from_layer}: give a number of layers from 0 (the paper's) "
                f"to --encoder-layers {layers}, or -1 for all"
            )
        self.expand_from_layer = layers if args.expand_from_layer == -1 else args.expand_from_layer
        self.mask_idx = dictionary.index("<mask>")
        self.links_feature = args.links_feature.split(":")
        self.state_graph = args.state_graph
        # how many nodes of a lattice, one after the other, the layers leave alike
        self.alike = self.k if self.state_graph == "lattice" and self.expand_from_layer == layers else 1
        self.max_transition_length = args.max_transition_length
        width = d * len(self.links_feature)
        if "position" in self.links_feature:
            self.link_positional = PositionalEmbedding(args.max_positions, d, dictionary.pad(), learned=True)
        if "distance" in self.links_feature:
            self.link_distance = nn.Embedding(2 * DISTANCES, d)
        self.query_linear = nn.Linear(width, d)
        self.key_linear = nn.Linear(width, d)
        self.gate_linear = nn.Linear(width, H)
        self.apply(init_bert_params)
        self.state_embedding = self.state_bias = None
        if (scale := args.state_embedding_scale) > 0:
            self.state_embedding = nn.Parameter(scale * torch.randn(self.k, d))
            std = BIAS_STD / BIAS_UNIT
            self.state_bias = nn.Parameter(std * scale * torch.randn(self.k, len(dictionary)))

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        target: Tensor | None = None,
        transitions: bool = True,
        masked_tokens: Tensor | None = None,
        only_first: bool = False,
        **unused,
    ):
        """Encodes a batch of B sentences of T tokens.

        Args:
            src_tokens: [B, T] int64.
            features_only: leave out LM head and transitions.
            return_all_hiddens: return the layers' outputs in ``extra["inner_states"]``, each [N, B, d].
            target: [B, T] int64, the original token where one is to be predicted, else pad. Without it the
                ``<mask>`` tokens are expanded.
            transitions: whether to compute the graph's links.
            masked_tokens: what fairseq's ``masked_lm`` passes; refused.
            only_first: with ``features_only``, only the features of the first token, [B, 1, d].

        Returns:
            A :class:`StateGraph`, or with ``features_only`` the features [B, N, d] of the N expanded tokens
            (the first being the first state of ``<s>``); and a dict with ``inner_states`` and the
            ``layout``.

        Raises:
            ValueError: for ``masked_tokens``, a sentence without ``<s>``, and, unless ``features_only``, one
                that is longer than ``--max-positions`` after its expansion.
        """
        if masked_tokens is not None:
            raise ValueError(
                "ExLM is trained with --criterion nat_dag_loss_mlm; "
                "the masked_lm criterion is for --arch p_roberta_base and its like"
            )
        dictionary = self.dictionary
        masked = src_tokens.eq(self.mask_idx) if target is None else target.ne(dictionary.pad())
        originals = src_tokens if target is None else target
        ids = {"bos": dictionary.bos(), "eos": dictionary.eos(), "pad": dictionary.pad()}
        layout = expand_states(src_tokens, masked, originals, self.k, **ids)
        expanded, tokens, limit = layout.tokens.shape[1], src_tokens.shape[1], self.args.max_positions
        if not features_only and expanded > limit:
            raise ValueError(
                f"a sentence of {tokens} tokens is {expanded} long after its expansion to k = {self.k} "
                f"states, beyond --max-positions {limit}: --max-positions {expanded} would do for this "
                f"batch, --max-positions {self.k * (tokens + 1)} for any of {tokens} tokens"
            )
        query_positions = None if features_only else layout.node_positions[:, :: self.alike]
        if only_first:
            query_positions = src_tokens.new_zeros(len(src_tokens), 1)
        last_norm = features_only or self.state_embedding is None
        x, hiddens = self._encode(layout, return_all_hiddens, query_positions, last_norm)
        extra = {"inner_states": hiddens, "layout": layout}
        return (x if features_only else self._graph(x, layout, transitions)), extra

    def _encode(
        self, layout: StateLayout, return_all_hiddens: bool, query_positions: Tensor | None, last_norm: bool
    ):
        """Features [B, N, d] of the expanded tokens, and hidden states, as ``RotaryEncoder.forward``; the
        tokens are expanded after the first ``--expand-from-layer`` layers."""
        pad, coordinates = self.dictionary.pad(), torch.stack([layout.positions, layout.copies], dim=-1)
        if self.args.rope_dimensions == 1:  # the paper's ablation: the index in the expanded sentence
            coordinates = self.token_coordinates(layout.tokens)
        non_padding_mask = None if layout.full else layout.tokens.ne(pad)
        tokens, expansion = layout.tokens, None
        if self.expand_from_layer > 0:
            expansion = Expansion(self.expand_from_layer, layout.positions, coordinates, non_padding_mask)
            tokens = layout.unexpanded
            coordinates = self.token_coordinates(tokens)
            non_padding_mask = None if layout.unexpanded_full else tokens.ne(pad)
        return self.sentence_encoder(
            tokens, coordinates, non_padding_mask, return_all_hiddens, query_positions, expansion, last_norm
        )

    def _graph(self, nodes: Tensor, layout: StateLayout, transitions: bool = True) -> StateGraph:
        """LM head and transitions: features of the nodes [B, L, d] (or [B, M, d] of a lattice whose states of
        a token are alike), with state embeddings before the last layer norm -> graph."""
        # views, so that DistributedDataParallel with --find-unused-parameters takes them for used here
        weight, bias = (p.view_as(p) for p in (self.lm_head.weight, self.lm_head.bias))
        features = nodes.unflatten(1, (layout.targets.shape[1], -1))  # [B, M, 1 or k, d]
        if self.state_embedding is not None:
            bias = bias + BIAS_UNIT * self.state_bias
            vectors, norm = VECTOR_STD * self.state_embedding, self.sentence_encoder.emb_layer_norm_after
            alike = self.alike > 1
            features = StateFeatures(features, vectors, norm) if alike else norm(features + vectors)
        states = self.lm_head.transform(features).expand(-1, -1, self.k, -1).flatten(1, 2)
        links = None
        if transitions and self.state_graph == "lattice":
            links = self._lattice_transitions(features, layout)
        elif transitions:
            links = self._links(features.flatten(1, 2), layout)
        return StateGraph(states, weight, bias, links, layout)

    def _lattice_transitions(self, features: Tensor | StateFeatures, layout: StateLayout) -> Tensor:
        """[B, M - 1, k, k] from the states' features [B, M, 1 or k, d]; as ``_links``, with each product of a
        sum taken once for each of its parts."""
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

    def _links(self, nodes: Tensor, layout: StateLayout) -> Tensor:
        """[B, L, L] from the nodes' states [B, L, d]."""
        parts, pad = {"feature": nodes}, self.dictionary.pad()
        if "position" in self.links_feature:  # numbered over the whole expanded sentence, from pad + 1
            index = layout.node_positions + pad + 1
            parts["position"] = F.embedding(index, self.link_positional.weight, pad)
        if "distance" in self.links_feature:
            distances = self.link_distance(distance_buckets(layout.node_sources[:, :: self.k])).sum(2)
            parts["distance"] = distances.repeat_interleave(self.k, 1)
        x = torch.cat([parts[name] for name in self.links_feature], dim=-1)
        limits = self.k, self.state_graph, self.max_transition_length
        edges = edge_mask(layout.node_lengths, x.shape[1], *limits)
        layers = self.query_linear, self.key_linear, self.gate_linear
        return transition_log_probs(*fused_linear(x, *layers), edges)


@register_model("p_roberta_ext_denselink")
class ExLMModel(RotaryRobertaModel):
    """``--arch p_roberta_ext_denselink*``, ``exlm_*``: trained with ``--criterion nat_dag_loss_mlm``.

    As the vanilla MLM, but where that gives logits the first output is a :class:`StateGraph`; see
    ``ExLMEncoder.forward`` for the arguments. Heads read the first state of an expanded token: classification
    heads that of the first ``<s>``, token heads one of each original token.
    """

    encoder_class = ExLMEncoder
    flags = EXLM_FLAGS

    @classmethod
    def check(cls, args) -> None:
        super().check(args)
        k = args.ext_state_num
        if (getattr(args, "repeat_times", None) or 1) > 1:
            raise ValueError(
                f"--repeat-times {args.repeat_times}: ExLM expands masked tokens itself; repeated tokens are "
                "for the vanilla MLM (--arch p_roberta_base, mlm_smiles, mlm_tiny, ...)"
            )
        length = args.max_transition_length
        if length != -1 and length < 2 * k - 1:
            raise ValueError(
                f"--max-transition-length {length} leaves sentences without a path from <s> to </s>: "
                f"with k = {k} it must be at least {2 * k - 1}, or -1 for any length"
            )
        if length != -1 and args.state_graph in ("local", "lattice"):
            raise ValueError(
                f"--max-transition-length {length}: the transitions of --state-graph {args.state_graph} have "
                "a length of their own; give it with dag or sparse"
            )

    def token_features(self, src_tokens: Tensor, **kwargs):
        features, extra = self.encoder(src_tokens, features_only=True, **kwargs)
        return gather_tokens(features, extra["layout"].first_states), extra
