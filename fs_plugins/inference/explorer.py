"""Case studies (section 5.3, appendix P): what the states of a sentence's masks say and how they link."""

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch

from fs_plugins.checkpoint import Checkpoint, load_checkpoint
from fs_plugins.data.text_codecs import MASK, Codec, encode_with_masks
from fs_plugins.inference.decodings import Path, StateGraphReader


@dataclass(frozen=True)
class Word:
    """A word at a node: as shown, its symbol in the dictionary, its probability P_u."""

    text: str
    symbol: str
    prob: float


@dataclass(frozen=True)
class Node:
    """A state of the graph.

    Attributes:
        index: of the node, from 0.
        token: index in the sentence, with ``<s>`` at 0, of the token that it is a state of.
        group: "<s>", "</s>", or "mask 1", "mask 2", ...
        mask: 1, 2, ... for the states of masks, 0 for others.
        copy: 1 ... k.
        visit_prob: probability that a path, drawn by the transitions, passes here.
        words: its most probable words, best first.
    """

    index: int
    token: int
    group: str
    mask: int
    copy: int
    visit_prob: float
    words: list[Word]


@dataclass(frozen=True)
class Reading:
    """The sentence as one path reads it.

    Attributes:
        text: the sentence, the masks replaced.
        words: as shown, one for each node of the path but its first and last.
        nodes: the path, from 0 to L - 1.
        log_prob: log-probability (nats) of the path with its words, ``<s>`` and ``</s>``.
        total_log_prob: the same, summed over all paths that give these words.
    """

    text: str
    words: list[str]
    nodes: list[int]
    log_prob: float
    total_log_prob: float


@dataclass(frozen=True)
class Filling:
    """What the model makes of a sentence with masks.

    Attributes:
        text: the sentence given.
        tokens: its symbols as shown, with ``<s>`` and ``</s>``.
        k: states of each mask.
        masks: how many there are.
        nodes: the L = k (masks + 2) nodes.
        transitions: [L][L] probabilities E(u, v).
        best: the best reading of as many words as masks: word i fills mask i.
        best_free: the best reading of any number of words; a mask takes those that its own states emit.
        samples, samples_free: sampled readings, of as many words as masks and of any number.
        length_prob: probability that a path drawn by the transitions has as many words as there are masks.
        unknown: pieces of the text that the dictionary does not have; the model saw ``<unk>`` there.
        notes: what to know about this checkpoint.
    """

    text: str
    tokens: list[str]
    k: int
    masks: int
    nodes: list[Node]
    transitions: list[list[float]]
    best: Reading | None
    best_free: Reading
    samples: list[Reading]
    samples_free: list[Reading]
    length_prob: float
    unknown: list[str]
    notes: list[str]

    def to_dict(self) -> dict:
        """All of it in plain lists and dicts, for JSON."""
        return asdict(self)


class Explorer:
    """Fills the masks of sentences with a trained ExLM.

    Args:
        checkpoint: an ExLM.
        codec: how its corpus was written.

    Raises:
        ValueError: for a model without states.
    """

    def __init__(self, checkpoint: Checkpoint, codec: Codec):
        if checkpoint.states is None:
            raise ValueError(
                f"{checkpoint.path} is a vanilla masked language model (--arch {checkpoint.arch}), which has "
                "no graph of states to explore: give a checkpoint of exlm_* or p_roberta_ext_denselink*; "
                "python -m fs_plugins.measures measures both"
            )
        self.checkpoint, self.codec = checkpoint, codec

    def fill(self, text: str, *, top: int = 5, samples: int = 5, seed: int = 1) -> Filling:
        """Reads a sentence such as ``"This is <mask>."``.

        Args:
            text: with at least one ``<mask>``; each stands for one symbol of the dictionary.
            top: words to give for each node.
            samples: sampled readings to give, of each kind.
            seed: of the samples.

        Raises:
            ValueError: for a text without a mask, a sentence longer than the model's positions, top < 1 or
                samples < 0.
        """
        if top < 1 or samples < 0:
            raise ValueError(f"top must be at least 1 and samples at least 0, got {top} and {samples}")
        checkpoint, dictionary = self.checkpoint, self.checkpoint.dictionary
        symbols = encode_with_masks(text, self.codec)
        ids = [dictionary.bos(), *map(dictionary.index, symbols), dictionary.eos()]
        with torch.no_grad():
            graph, _ = checkpoint.model(torch.tensor([ids], device=checkpoint.device))
            log_probs = graph.logits()[0].double().log_softmax(-1).cpu()  # [L, V]
        reader = StateGraphReader(log_probs, graph.links[0].cpu(), dictionary.bos(), dictionary.eos())
        sources = graph.layout.node_sources[0].tolist()
        sentence = _Sentence(["<s>", *symbols, "</s>"], self.codec, dictionary, sources, reader)
        masks, generator = len(sentence.masks), torch.Generator().manual_seed(seed)
        by_order = [reader.sample(generator, masks) for _ in range(samples)]
        free = [reader.sample(generator) for _ in range(samples)]
        notes = []
        if checkpoint.criterion != "nat_dag_loss_mlm":
            notes.append(
                f"this checkpoint was trained with --criterion {checkpoint.criterion}, not nat_dag_loss_mlm: "
                "its transitions and readings are not what was trained last"
            )
        return Filling(
            text=text,
            tokens=[self.codec.word(s) for s in sentence.symbols],
            k=checkpoint.states,
            masks=masks,
            nodes=sentence.nodes(checkpoint.states, top),
            transitions=reader.links.exp().tolist(),
            best=sentence.read(reader.best(masks), by_order=True),
            best_free=sentence.read(reader.best(), by_order=False),
            samples=[sentence.read(path, by_order=True) for path in by_order if path is not None],
            samples_free=[sentence.read(path, by_order=False) for path in free],
            length_prob=math.exp(reader.length_log_prob(masks + 2)),
            unknown=[self.codec.word(s) for s in symbols if dictionary.index(s) == dictionary.unk()],
            notes=notes,
        )


class _Sentence:
    """The symbols of a sentence beside its graph; ``sources``: of each node the index of its symbol."""

    def __init__(self, symbols, codec, dictionary, sources, reader: StateGraphReader):
        self.symbols, self.codec, self.dictionary = symbols, codec, dictionary
        self.sources, self.reader = sources, reader
        self.masks = [i for i, symbol in enumerate(symbols) if symbol == MASK]

    def nodes(self, k: int, top: int) -> list[Node]:
        visits = self.reader.visits().tolist()
        probs, ids = self.reader.words.exp().topk(min(top, self.reader.words.shape[1]), dim=1)
        nodes = []
        for u, source in enumerate(self.sources):
            mask = self.masks.index(source) + 1 if source in self.masks else 0
            words = [
                Word(self.codec.word(self.dictionary[i]), self.dictionary[i], p)
                for i, p in zip(ids[u].tolist(), probs[u].tolist(), strict=True)
            ]
            group = f"mask {mask}" if mask else self.symbols[source]
            nodes.append(Node(u, source, group, mask, u % k + 1, visits[u], words))
        return nodes

    def read(self, path: Path | None, by_order: bool) -> Reading | None:
        """A path as a sentence: its words fill the masks in order, or each goes where its node stands."""
        if path is None:
            return None
        symbols = [self.dictionary[word] for word in path.words]
        places = self.masks if by_order else [self.sources[u] for u in path.nodes[1:-1]]
        filled: list[list[str]] = [[] if i in self.masks else [s] for i, s in enumerate(self.symbols)]
        filled[0], filled[-1] = [], []
        for place, symbol in zip(places, symbols, strict=True):
            filled[place].append(symbol)
        return Reading(
            text=self.codec.decode([symbol for group in filled for symbol in group]).strip(),
            words=[self.codec.word(symbol) for symbol in symbols],
            nodes=list(path.nodes),
            log_prob=path.log_prob,
            total_log_prob=self.reader.words_log_prob(path.words),
        )


def load(
    checkpoint: str | os.PathLike,
    *,
    data: str | os.PathLike | None = None,
    bpe: str | Sequence[str] | None = None,
    device: str | None = None,
) -> Explorer:
    """An :class:`Explorer` of a checkpoint.

    >>> filling = load("checkpoints/exlm/checkpoint_best.pt").fill("This is <mask>.")
    >>> filling.best.text, filling.best.log_prob, filling.nodes[4].words[0].text

    Args:
        checkpoint: a file that fairseq-train saved of ``--arch exlm_*`` or ``p_roberta_ext_denselink*``.
        data, device: as of :func:`fs_plugins.checkpoint.load_checkpoint`, as are the errors.
        bpe: how the corpus was written: "none" (symbols between blanks), "smiles", a tokenizer.json, or
            GPT-2's (encoder.json, vocab.bpe); by default what lies beside the dictionary, else "none".
    """
    loaded = load_checkpoint(checkpoint, data, device)
    return Explorer(loaded, loaded.codec(bpe))
