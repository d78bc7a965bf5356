"""Predictions of masked words, given the visible ones: of each word by itself, or of all together.

A model knows how many words are missing and where, but none of them:

* MLM: P at the word's position; words are independent of each other.
* Repeated MLM: all k copies are masked; the mean of P over them.
* ExLM: of all paths through the graph with as many nodes as there are targets, in proportion to their
  transitions, node u of target i emits a word by P_u. So P(y_i = w) = sum over u of P(u is the i-th node)
  P_u(w), and P(y_1, y_2, ...) = sum over paths of P(path) times the product of P_u(y_i). Exact, by the
  forward-backward algorithm of training. Visible targets (``<s>``, ``</s>``) are emitted for certain.
* ExLM w/o transitions: the CTC probability that the token's k states emit w and nothing else; not the blank.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fs_plugins.criterions.state_use import path_posteriors
from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.exlm.alignment import ctc_word_log_probs
from fs_plugins.exlm.graph import StateGraph
from fs_plugins.models.exlm import ExLMModel
from fs_plugins.speed.match_scores import match_scores


@dataclass(frozen=True)
class MaskedGraph:
    """The graph of B masked sentences, as the model gives it without knowing a masked word."""

    graph: StateGraph  # has links
    is_masked: Tensor  # [B, M] bool, the targets that are masked words, not ``<s>``, ``</s>`` or padding

    @torch.no_grad()
    def match(self, words: Tensor) -> Tensor:
        """Returns the log-probability [B, M, L] that node u emits word i, of visible targets 0; ``words`` are
        [masked words] int64, one for each True of ``is_masked``, in order."""
        targets = self.graph.layout.targets.clone()
        targets[self.is_masked] = words
        match = self.graph.match(targets, match_scores)
        return match.masked_fill(~self.is_masked[:, :, None], 0.0)


class MaskedPredictor:
    """A model that predicts masked words; see the module.

    Args:
        model: an MLM, or an ExLM, in evaluation mode.
        copies: of each token in Repeated MLM; an ExLM knows its own k.
        ctc: for an ExLM that was trained without transitions.
    """

    def __init__(self, model, *, copies: int = 1, ctc: bool = False):
        self.model, self.copies = model, copies
        self.dictionary = model.dictionary
        expands = isinstance(model, ExLMModel)
        self.k = model.encoder.k if expands else 1
        self.expansion = self.k * copies  # most tokens that the model makes of one
        self.has_transitions, self.ctc = expands and not ctc, expands and ctc

    @torch.no_grad()
    def graph(self, tokens: Tensor, masked: Tensor) -> MaskedGraph:
        """Returns the graph of an ExLM; tokens [B, T] and masked [B, T] as of :meth:`token_log_probs`. Raises
        ValueError for more states than the model has positions."""
        dictionary = self.dictionary
        visible = tokens.masked_fill(masked, dictionary.index("<mask>"))
        # a target that says where the masks are, not what is behind them
        target = torch.where(masked, dictionary.unk(), dictionary.pad())
        graph, _ = self.model(visible, target=target, transitions=not self.ctc)
        sources = graph.layout.node_sources[:, :: self.k]  # [B, M]; a </s> that was appended is at T
        return MaskedGraph(graph, F.pad(masked, (0, 1)).gather(1, sources))

    @torch.no_grad()
    def token_log_probs(self, tokens: Tensor, masked: Tensor) -> Tensor:
        """Returns the log-probabilities (nats) of the vocabulary for each masked word, each by itself:
        [masked words, V] float32, in the order of ``tokens[masked]``.

        Args:
            tokens: [B, T] int64, right-padded; at masked ones it does not matter which.
            masked: [B, T] bool.
        """
        if not isinstance(self.model, ExLMModel):
            visible = tokens.masked_fill(masked, self.dictionary.index("<mask>"))
            copies = masked.repeat_interleave(self.copies, dim=1)
            logits, _ = self.model(visible.repeat_interleave(self.copies, dim=1), masked_tokens=copies)
            log_probs = logits.float().log_softmax(-1).unflatten(0, (-1, self.copies))
            return log_probs.logsumexp(1) - torch.tensor(float(self.copies)).log()
        return self.word_log_probs(self.graph(tokens, masked))

    def word_log_probs(self, graph: MaskedGraph) -> Tensor:
        """Returns the log-probabilities of :meth:`token_log_probs`, from an ExLM's graph."""
        rows, visits = [], None if self.ctc else path_posteriors(graph.graph)[0]
        for b, wanted in enumerate(graph.is_masked):
            log_probs = graph.graph.log_probs(b)
            if self.ctc:  # the states of each token emit blanks, a run of the word, blanks
                states = log_probs.unflatten(0, (-1, self.k))  # [M, k, V]
                rows.append(ctc_word_log_probs(states[wanted[: len(states)]], self.dictionary.unk()))
            else:
                probs = visits[b, wanted, : len(log_probs)] @ log_probs.exp()
                rows.append(probs.clamp_min(torch.finfo(probs.dtype).tiny).log())
        return torch.cat(rows)

    @torch.no_grad()
    def log_probs_of(self, tokens: Tensor, masked: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the log-probabilities (nats) of the right words: each by itself [B, T], 0 where not masked;
        and all of a sentence together [B]."""
        each = torch.zeros(tokens.shape, device=tokens.device)
        if not self.has_transitions:
            each[masked] = self.token_log_probs(tokens, masked).gather(1, tokens[masked][:, None])[:, 0]
            return each, each.sum(1)
        graph = self.graph(tokens, masked)
        match, layout = graph.match(tokens[masked]), graph.graph.layout
        visits, reached = path_posteriors(graph.graph)
        each[masked] = (visits.log() + match).logsumexp(-1)[graph.is_masked]
        total = dag_loss(match, graph.graph.links, layout.node_lengths, layout.target_lengths)
        return each, total - reached
