"""ExLM (section 4 of the paper): a masked language model whose masked tokens are k states each, linked by
learned transitions.

A batch is expanded (modules/state_expansion.py), encoded (modules/encoder.py) and linked (modules/
transition_head.py), in this order, by ``ExLMEncoder.forward``, which ``model(...)`` calls. What is not in the
paper is in exlm_lattice.py.
"""

import logging
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.modules import PositionalEmbedding
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, nn

from fs_plugins.models.flags import EXLM_FLAGS
from fs_plugins.models.mlm import RotaryRobertaEncoder, RotaryRobertaModel
from fs_plugins.modules.compilation import MULTIPLE
from fs_plugins.modules.state_expansion import StateLayout, expand_states, gather_tokens
from fs_plugins.modules.transition_head import edge_mask, transition_log_probs

logger = logging.getLogger(__name__)


@dataclass
class StateGraph:
    """The graph of states of a batch, before the step to the vocabulary."""

    node_states: Tensor  # [B, L, d] what the output matrix is applied to, at each node
    output_weight: Tensor  # [V, d]
    output_bias: Tensor  # [V]
    # [B, L, L] float32 log-probabilities of transitions, -inf where there is no edge; None if not asked for
    links: Tensor | None
    layout: StateLayout  # where nodes and targets stand
    is_compiled: bool = False  # whether the loss is to be compiled, too

    def __getitem__(self, index: int) -> Tensor:
        """Returns a tensor for 0, as the hooks of fairseq's search for what is not finite expect."""
        return (self.node_states,)[index]

    def logits(self, sentences: slice = slice(None)) -> Tensor:
        """Returns [B, L, V] scores of the vocabulary at each node; training needs only the targets'."""
        return F.linear(self.node_states[sentences], self.output_weight, self.output_bias)

    def log_probs(self, b: int) -> Tensor:
        """Returns [L of sentence b, V] log-probabilities of the vocabulary at each node, float32."""
        logits = self.logits(slice(b, b + 1))[0, : int(self.layout.node_lengths[b])]
        return logits.float().log_softmax(-1)


class ExLMEncoder(RotaryRobertaEncoder):
    """Expands the states, encodes them and links them."""

    def __init__(self, args, dictionary):
        super().__init__(args, dictionary)
        d, H = args.encoder_embed_dim, args.encoder_attention_heads
        self.k = args.ext_state_num
        self.mask_idx = dictionary.index("<mask>")
        self.links_feature = args.links_feature.split(":")
        self.state_graph = args.state_graph
        self.max_transition_length = args.max_transition_length
        self.embed_places()
        width = d * len(self.links_feature)
        self.query_linear = nn.Linear(width, d)
        self.key_linear = nn.Linear(width, d)
        self.gate_linear = nn.Linear(width, H)
        self.apply(init_bert_params)

    def embed_places(self) -> None:
        """Makes the embeddings of places that transitions read beside the nodes' features."""
        if "position" in self.links_feature:
            rows, d, pad = self.args.max_positions, self.args.encoder_embed_dim, self.dictionary.pad()
            self.link_positional = PositionalEmbedding(rows, d, pad, learned=True)

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        target: Tensor | None = None,
        transitions: bool = True,
        only_first: bool = False,
        counts: np.ndarray | None = None,
        **unused,
    ):
        """Encodes a batch of B sentences of T tokens.

        Args:
            src_tokens: [B, T] int64.
            features_only: leave out LM head and transitions.
            target: [B, T] int64, the original token where one is to be predicted, else pad. Without it the
                ``<mask>`` tokens are expanded.
            transitions: whether to compute the graph's links.
            counts: of ``target``, as ``CountedDataset`` gives them: they save a device-to-host sync.
            only_first: with ``features_only``, only the features of the first token, [B, 1, d].

        Returns:
            A :class:`StateGraph`, or with ``features_only`` the features [B, N, d] of the N expanded tokens
            (the first being the first state of ``<s>``); and a dict with the ``layout``.

        Raises:
            ValueError: for a sentence without ``<s>``, and, unless ``features_only``, one that is longer than
                ``--max-positions`` after its expansion.
        """
        dictionary = self.dictionary
        masked = src_tokens.eq(self.mask_idx) if target is None else target.ne(dictionary.pad())
        originals = src_tokens if target is None else target
        ids = {"bos": dictionary.bos(), "eos": dictionary.eos(), "pad": dictionary.pad()}
        compiled, limit = self.sentence_encoder.is_compiled, self.args.max_positions
        shapes = {"multiple": MULTIPLE, "most": limit} if compiled else {}
        shapes["counts"] = None if counts is None else torch.from_numpy(counts)
        layout = expand_states(src_tokens, masked, originals, self.k, **ids, **shapes)
        expanded, tokens = layout.tokens.shape[1], src_tokens.shape[1]
        if not features_only and expanded > limit:
            raise ValueError(
                f"a sentence of {tokens} tokens is {expanded} long after its expansion to k = {self.k} "
                f"states, beyond --max-positions {limit}: --max-positions {expanded} would do for this "
                f"batch, --max-positions {self.k * (tokens + 1)} for any of {tokens} tokens"
            )
        x, extra = self._encode(layout, features_only, only_first), {"layout": layout}
        if features_only:
            return x, extra
        graph = self._graph(x, layout, transitions)
        graph.is_compiled = compiled
        return graph, extra

    def _encode(self, layout: StateLayout, features_only: bool, only_first: bool) -> Tensor:
        """Returns features [B, L, d] of the nodes, or with ``features_only`` [B, N, d] of all expanded tokens
        (with ``only_first`` [B, 1, d])."""
        tokens = layout.tokens
        non_padding_mask = None if layout.full else tokens.ne(self.dictionary.pad())
        queries = self._queries(layout, features_only, only_first)
        return self.sentence_encoder(tokens, self._coordinates(layout), non_padding_mask, queries)

    def _queries(self, layout: StateLayout, features_only: bool, only_first: bool) -> Tensor | None:
        """Returns [B, R] the expanded tokens whose features are wanted; None for all."""
        if only_first:
            return layout.node_positions[:, :1]
        return None if features_only else layout.node_positions

    def _coordinates(self, layout: StateLayout) -> Tensor:
        """[B, N, 2] where each expanded token stands (section 4.2): its index before the expansion, and which
        copy it is. Without 2D RoPE (table 2) [B, N, 1], the index after the expansion."""
        if self.args.rope_dimensions == 1:
            return self.token_coordinates(layout.tokens)
        return torch.stack([layout.positions, layout.copies], dim=-1)

    def _graph(self, nodes: Tensor, layout: StateLayout, transitions: bool) -> StateGraph:
        """Returns the graph of nodes with features [B, L, d], by LM head and transitions."""
        # views, so that DistributedDataParallel with --find-unused-parameters takes them for used here
        weight, bias = (p.view_as(p) for p in (self.lm_head.weight, self.lm_head.bias))
        links = self._links(nodes, layout) if transitions else None
        return StateGraph(self.lm_head.transform(nodes), weight, bias, links, layout)

    def _links(self, nodes: Tensor, layout: StateLayout) -> Tensor:
        """Returns [B, L, L] from the nodes' features [B, L, d] (section 4.2)."""
        parts = {"feature": nodes, **self._places(layout)}
        x = torch.cat([parts[name] for name in self.links_feature], dim=-1)
        limits = self.k, self.state_graph, self.max_transition_length
        edges = edge_mask(layout.node_lengths, x.shape[1], *limits)
        return transition_log_probs(self.query_linear(x), self.key_linear(x), self.gate_linear(x), edges)

    def _places(self, layout: StateLayout) -> dict[str, Tensor]:
        """Returns embeddings [B, L, d] of the nodes' places, by name; numbered over the whole expanded
        sentence, from pad + 1, as fairseq numbers tokens."""
        if "position" not in self.links_feature:
            return {}
        pad = self.dictionary.pad()
        return {"position": F.embedding(layout.node_positions + pad + 1, self.link_positional.weight, pad)}


class ExLMModel(RotaryRobertaModel):
    """``--arch p_roberta_ext_denselink*``, ``exlm_*``: trained with ``--criterion nat_dag_loss_mlm``.

    As the vanilla MLM, but where that gives logits the first output is a :class:`StateGraph`; see
    ``ExLMEncoder.forward`` for the arguments. Heads read the first state of an expanded token: classification
    heads that of the first ``<s>``, token heads one of each original token.
    """

    flags = EXLM_FLAGS

    @classmethod
    def choose_encoder(cls, args) -> type[ExLMEncoder]:
        return ExLMEncoder

    @classmethod
    def check(cls, args) -> None:
        k, length = args.ext_state_num, args.max_transition_length
        if (getattr(args, "repeat_times", None) or 1) > 1:
            raise ValueError(
                f"--repeat-times {args.repeat_times}: ExLM expands masked tokens itself; repeated tokens are "
                "for the vanilla MLM (--arch p_roberta_base, mlm_smiles, mlm_tiny, ...)"
            )
        if length != -1 and length < 2 * k - 1:
            raise ValueError(
                f"--max-transition-length {length} leaves sentences without a path from <s> to </s>: "
                f"with k = {k} it must be at least {2 * k - 1}, or -1 for any length"
            )
        if length != -1 and args.state_graph not in ("dag", "sparse"):
            raise ValueError(
                f"--max-transition-length {length}: the transitions of --state-graph {args.state_graph} have "
                "a length of their own; give it with dag or sparse"
            )

    def token_features(self, src_tokens: Tensor, **kwargs):
        features, extra = self.encoder(src_tokens, features_only=True, **kwargs)
        return gather_tokens(features, extra["layout"].first_states), extra

    def upgrade_state_dict_named(self, state_dict, name):
        """Besides the MLM's changes: of an MLM's checkpoint (``--finetune-from-model``), which has no
        transition head, the encoder and the LM head are loaded; the rest stays as it was initialised."""
        super().upgrade_state_dict_named(state_dict, name)
        prefix = f"{name}.encoder." if name else "encoder."
        if not any(key.startswith(f"{prefix}query_linear.") for key in state_dict):
            shared = ("sentence_encoder.", "lm_head.")
            own = {
                key: value for key, value in self.encoder.state_dict().items() if not key.startswith(shared)
            }
            logger.warning("the checkpoint is an MLM's: %s are as initialised", ", ".join(own))
            state_dict |= {f"{prefix}{key}": value for key, value in own.items()}
