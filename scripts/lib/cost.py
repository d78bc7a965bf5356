"""What a pre-training will cost, from its sizes alone: parameters, tokens, FLOPs, memory, hours.

FLOPs are those of the matrix products, two a multiplication with addition, three times the forward pass.
Each layer counts at all of its tokens, for all models alike, although ExLM's last one is computed at the
nodes only. Samples of different lengths count as such. Memory and hours are estimates for mixed precision,
compared with no profiler.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lib.command_line import UserError
from lib.dictionaries import entries_of, read_symbols
from lib.flags import Flags

# peak in TFLOP/s, half precision, dense, by the makers' data sheets
CARDS = {"V100": 125, "RTX-3090": 71, "RTX-4090": 165, "A100": 312, "L40S": 362, "H100": 989, "H200": 989}
# bytes for each parameter: 2 in half precision (weight, gradient), 4 in float32 (both, and Adam's moments)
BYTES_PER_PARAMETER = 2 + 2 + 4 + 4 + 8


@dataclass(frozen=True)
class Model:
    """Sizes of a model and of what it reads.

    Attributes:
        layers, d, ffn, heads: of the encoder.
        V: entries of the dictionary, <mask> included.
        positions: --max-positions.
        k: states of a masked token (ExLM), or copies of each token (Repeated MLM).
        p: share of the tokens that are masked.
        T: tokens of a sample, before expansion; or an array, of each of several samples.
        kind: "exlm", "mlm" or "repeated-mlm".
        transitions: whether it has a transition head that is computed.
        expand_from_layer: layers that see the tokens before their expansion (ExLM).
    """

    layers: int
    d: int
    ffn: int
    heads: int
    V: int
    positions: int
    k: int
    p: float
    T: float | np.ndarray
    kind: str
    transitions: bool = True
    expand_from_layer: int = 0

    @property
    def parameters(self) -> int:
        d, ffn = self.d, self.ffn
        layer = 4 * (d * d + d) + 2 * d * ffn + ffn + d + 4 * d  # attention, feed-forward, two norms
        head = d * d + d + 2 * d + self.V  # dense, norm, bias; the output matrix is the embedding
        total = self.V * d + self.layers * layer + 2 * d + head
        if self.kind == "exlm":
            total += (self.positions + 2) * d + 2 * (2 * d * d + d) + 2 * d * self.heads + self.heads
        return total

    @property
    def targets(self) -> float:
        """Of a sample: masked tokens; for ExLM with <s> and </s>."""
        masked = self.p * self.T * (self.k if self.kind == "repeated-mlm" else 1)
        return masked + 2 if self.kind == "exlm" else masked

    @property
    def tokens(self) -> float:
        """Of a sample, as the encoder's last layers see it."""
        if self.kind == "repeated-mlm":
            return self.k * self.T
        return self.T + self.targets * (self.k - 1) if self.kind == "exlm" else self.T

    @property
    def tokens_of_layers(self) -> list[tuple[int, float]]:
        """(layers, tokens of a sample that they see)."""
        first = self.expand_from_layer
        return [(first, self.T), (self.layers - first, self.tokens)]

    @property
    def flops(self) -> float:
        """Of a sample in training, the mean over samples of different lengths."""
        d = self.d
        encoder = sum(n * E * (4 * d * d + 2 * d * self.ffn + 2 * E * d) for n, E in self.tokens_of_layers)
        outputs = self.targets * (self.k if self.kind == "exlm" else 1)  # where the vocabulary is computed
        head = outputs * (d * d + d * self.V)
        graph = 0.0
        if self.kind == "exlm" and self.transitions:
            L, M = outputs, self.targets
            graph = L * 2 * d * (2 * d + self.heads) + L * L * d / 2 + M * L * L / 2
        return float(np.mean(3 * 2 * (encoder + head + graph)))

    def memory(self, sentences: int) -> float:
        """Bytes on a GPU for a step of as many samples: states of the optimizer, and activations (of a layer
        34 d + 5 E heads bytes a token, without checkpointing them; of the vocabulary 6 V an output)."""
        outputs = self.targets * (self.k if self.kind == "exlm" else 1)
        layers = sum(n * E * (34 * self.d + 5 * E * self.heads) for n, E in self.tokens_of_layers)
        return BYTES_PER_PARAMETER * self.parameters + sentences * (layers + outputs * 6 * self.V)


def model_of(name: str, k: int, model: Flags, recipe: Flags, V: int, T: int) -> Model:
    """The sizes that a plan's flags stand for.

    Args:
        name: of configs/model/.
        model, recipe: the plan's groups.
        V: entries of the dictionary, <mask> included.
        T: tokens of a sample.

    Raises:
        UserError: for a flag whose value is no size.
    """
    sizes = encoder_sizes(model)
    kind = name if name in ("mlm", "repeated-mlm") else "exlm"
    transitions = model.value("--criterion") == "nat_dag_loss_mlm"
    p = recipe.number("--mask-prob", below=1)
    first = expand_from_layer(model, sizes[0]) if kind == "exlm" else 0
    return Model(*sizes, V, model.whole("--max-positions"), k, p, T, kind, transitions, first)


def flops_of_run(words: list[str]) -> float:
    """FLOPs of a whole training by its call of fairseq-train.

    Args:
        words: ``[..., "fairseq-train", DATA, "--user-dir", ...]``, as a page in scripts/ calls it.

    Raises:
        UserError: for a flag whose value is no size, or if the data have no dictionary.
    """
    start = words.index("--user-dir")
    flags, dictionary = Flags.of(words[start:]), Path(words[start - 1].split(":")[0], "dict.txt")
    repeated = flags.value("--task") == "repeated_masked_lm"
    name = "exlm" if "--ext-state-num" in flags else "repeated-mlm" if repeated else "mlm"
    counts = [flag for flag in ("--ext-state-num", "--repeat-times") if flag in flags]
    k, T = flags.whole(counts[0]) if counts else 1, lengths(words[start - 1], flags)
    model = model_of(name, k, flags, flags, entries_of(read_symbols(dictionary)), T)
    samples = (
        flags.whole("--batch-size") if "--batch-size" in flags else flags.whole("--max-tokens") / T.mean()
    )
    for flag in ("--update-freq", "--distributed-world-size"):
        samples *= flags.whole(flag) if flag in flags else 1
    return model.flops * samples * flags.whole("--max-update")


def lengths(data: str, flags: Flags) -> np.ndarray:
    """Tokens of the samples, with their ``<s>``: those of the training set where each sentence is a sample
    (--sample-break-mode eos), else one sample of --tokens-per-sample.

    Args:
        data: folders, joined by ':'.
    """
    longest = flags.whole("--tokens-per-sample")
    if flags.value("--sample-break-mode") != "eos":
        return np.array([longest])
    from fairseq.data import data_utils  # takes seconds

    datasets = [data_utils.load_indexed_dataset(str(Path(part, "train")), None) for part in data.split(":")]
    found = np.concatenate([dataset.sizes for dataset in datasets]) + 1  # a copy: sizes go with their dataset
    return found[found <= longest]


def encoder_sizes(model: Flags) -> list[int]:
    """Layers, hidden size, feed-forward size and heads, the architecture's where no flag gives them."""
    flags = [f"--encoder-{what}" for what in ("layers", "embed-dim", "ffn-embed-dim", "attention-heads")]
    if model.keys() >= set(flags):
        return [model.whole(flag) for flag in flags]
    from fs_plugins.models import architectures  # takes seconds

    arch = model.value("--arch") or ""
    size = next((part for part in ("large", "smiles", "tiny") if part in arch), "base")
    defaults = getattr(architectures, size.upper())
    return [model.whole(f) if f in model else n for f, n in zip(flags, defaults, strict=True)]


def expand_from_layer(model: Flags, layers: int) -> int:
    """How many layers come before the expansion: --expand-from-layer, 0 unless given.

    Raises:
        UserError: if there are not so many layers.
    """
    value = "0" if "--expand-from-layer" not in model else model.value("--expand-from-layer") or ""
    if value == "-1":
        return layers
    if not value.isdigit() or int(value) > layers:
        raise UserError(
            f"--expand-from-layer {value}: give a number of layers from 0 to {layers}, or -1 for all"
        )
    return int(value)


def text_of(
    model: Model, samples: float, step: float, updates: int, workers: int, card: str, share: float
) -> str:
    """The cost in words.

    Args:
        samples: of an update, on all workers.
        step: samples of a step on one worker.
        card: of CARDS.
        share: of the card's peak that the training reaches.
    """
    flops = model.flops * samples * updates
    hours = flops / (CARDS[card] * 1e12 * share * workers) / 3600
    before, after = samples * np.mean(model.T), samples * np.mean(model.tokens)
    longest = replace(model, T=np.max(model.T))
    peak = f"{share:.0%} of {CARDS[card]} TFLOP/s"
    return "\n".join(
        [
            f"parameters        {model.parameters:,}",
            f"tokens an update  {before:,.0f}; expanded {after:,.0f} ({after / before:.2f} times)",
            f"tokens in all     {before * updates:,.0f} in {updates:,} updates",
            f"FLOPs             {flops:.3g}",
            f"memory of a GPU   about {longest.memory(max(1, round(step))) / 2**30:.1f} GiB",
            f"hours             about {hours:,.1f} on {workers} x {card} at {peak}",
        ]
    )
