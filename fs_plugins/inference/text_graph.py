"""Case studies (section 5.3, appendix P): predictions of the states of a text's masks, and transitions."""

from dataclasses import asdict, dataclass

import torch
from fairseq.data import Dictionary
from torch import Tensor

from fs_plugins.checkpoint import Checkpoint
from fs_plugins.data.text_codecs import MASK, Codec, is_special
from fs_plugins.exlm.graph import StateGraph
from fs_plugins.inference.decodings import GraphDecoder


@dataclass(frozen=True)
class Token:
    """A token that is predicted: as shown, its symbol in the dictionary, its probability."""

    text: str
    symbol: str
    prob: float


@dataclass(frozen=True)
class State:
    """A state of the graph."""

    index: int  # number of the node, from 0
    name: str  # "mask 1, state 2", or "<s>, state 1"
    token: int  # index in the text, with ``<s>`` at 0, of the token that it is a state of
    mask: int  # 1, 2, ... for the states of masks, 0 for others
    visit_prob: float  # probability that a path, drawn by the transitions, visits it
    tokens: list[Token]  # its most probable ones, best first, with their probabilities P_u


@dataclass(frozen=True)
class Decoding:
    """The text as a path through the graph fills it: token i fills mask i."""

    text: str  # text with its masks replaced
    pieces: list[tuple[str, int]]  # the text in parts, each with the number of the mask that it fills, or 0
    states: list[int]  # the path, by index
    log_prob: float  # log-probability (nats) of the path with its tokens, ``<s>`` and ``</s>``
    total_log_prob: float  # the same, summed over all paths that give these tokens


@dataclass(frozen=True)
class TextGraph:
    """The graph of an ExLM's states for a text with masks, and its best decoding."""

    text: str  # the one given
    tokens: list[str]  # its symbols as shown, with ``<s>`` and ``</s>``
    k: int  # states of each mask
    masks: int  # number of masks
    states: list[State]  # the L = k (masks + 2) states
    transitions: list[list[float]]  # [L][L] probabilities E(u, v)
    best: Decoding | None  # the best decoding; None if no path has as many states as it takes
    unknown: list[str]  # pieces of the text that the dictionary does not have; the model saw ``<unk>`` there

    def to_dict(self) -> dict:
        """Returns all of it in plain lists and dicts, for JSON."""
        return asdict(self)


def text_graph(checkpoint: Checkpoint, sentence: "Sentence", text: str, top: int) -> TextGraph:
    """Returns the graph of a text, as ``Model.graph`` documents it. Symbols such as ``</s>`` fill no mask."""
    codec, dictionary, decoder = sentence.codec, sentence.dictionary, sentence.decoder
    unknown = (s for s in sentence.symbols if dictionary.index(s) == dictionary.unk())
    return TextGraph(
        text=text,
        tokens=[codec.word(s) for s in sentence.symbols],
        k=checkpoint.k,
        masks=len(sentence.masks),
        states=sentence.states(checkpoint.k, top),
        transitions=decoder.links.exp().tolist(),
        best=sentence.best(),
        unknown=[codec.word(s) for s in unknown],
    )


def special_ids(dictionary: Dictionary) -> list[int]:
    """Returns the ids of the symbols that stand for no token of a text."""
    return [i for i, symbol in enumerate(dictionary.symbols) if is_special(symbol)]


def top_tokens(probs: Tensor, top: int, codec: Codec, dictionary: Dictionary) -> list[list[Token]]:
    """Returns the most probable tokens of each row of probabilities [N, V], best first."""
    rows = zip(*(part.tolist() for part in probs.topk(min(top, probs.shape[1]))), strict=True)
    return [
        [Token(codec.word(dictionary[i]), dictionary[i], p) for p, i in zip(*row, strict=True)]
        for row in rows
    ]


class Sentence:
    """The symbols of a text, with ``<s>`` and ``</s>``, beside their graph: that of a batch of one."""

    def __init__(self, graph: StateGraph, symbols: list[str], codec: Codec, dictionary: Dictionary):
        self.symbols, self.codec, self.dictionary = ["<s>", *symbols, "</s>"], codec, dictionary
        with torch.no_grad():
            log_probs, links = graph.log_probs(0).cpu(), graph.links[0].cpu()
        ends = dictionary.bos(), dictionary.eos()
        self.decoder = GraphDecoder(log_probs, links, *ends, special_ids(dictionary))
        self.sources = graph.layout.node_sources[0].tolist()  # index of each state's symbol
        indices = (i for i, symbol in enumerate(self.symbols) if symbol == MASK)
        self.masks = {index: number for number, index in enumerate(indices, 1)}

    def states(self, k: int, top: int) -> list[State]:
        """Returns the states, each with its ``top`` most probable tokens."""
        visits = self.decoder.visits().tolist()
        tokens = top_tokens(self.decoder.log_probs.exp(), top, self.codec, self.dictionary)
        states = []
        for u, source in enumerate(self.sources):
            mask = self.masks.get(source, 0)
            name = f"{f'mask {mask}' if mask else self.symbols[source]}, state {u % k + 1}"
            states.append(State(u, name, source, mask, visits[u], tokens[u]))
        return states

    def best(self) -> Decoding | None:
        """Returns the best decoding with a token for each mask; None if no path has as many."""
        if (path := self.decoder.best(len(self.masks))) is None:
            return None
        filled = list(self.symbols)
        for index, word in zip(self.masks, path.words, strict=True):
            filled[index] = self.dictionary[word]
        pieces, before = [], ""
        for i in range(1, len(filled) - 1):
            text = self.codec.decode(filled[1 : i + 1]).lstrip()
            mask = self.masks.get(i, 0)
            if (added := text.removeprefix(before)) and pieces and pieces[-1][1] == mask == 0:
                pieces[-1] = (pieces[-1][0] + added, 0)
            elif added:
                pieces.append((added, mask))
            before = text
        total = self.decoder.words_log_prob(path.words)
        return Decoding(before.strip(), pieces, list(path.nodes), path.log_prob, total)
