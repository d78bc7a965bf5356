"""What a pre-training will cost, from its flags alone: parameters, tokens, FLOPs, hours.

FLOPs are those of the matrix products, two a multiplication with addition, three times the forward pass.
Each layer counts at all of its tokens, for all models alike, although ExLM's last one is computed at the
nodes only. Samples of different lengths count as such. Hours are those of half of a card's peak, which the
paper's in table 12 are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lib.command_line import Flags, UserError

# peak in TFLOP/s, half precision, dense, by the makers' data sheets
CARDS = {"V100": 125, "RTX-3090": 71, "RTX-4090": 165, "A100": 312, "L40S": 362, "H100": 989, "H200": 989}
UTILIZATION = 0.5
# where the data do not exist yet: entries of the paper's dictionaries, tokens of a typical molecule
TEXT_ENTRIES, SMILES_ENTRIES, MOLECULE = 50_265, 369, 48


class Cost:
    """Of a training by its flags.

    Attributes:
        parameters: of the model.
        tokens: [samples] that the encoder's last layers see.
        flops: of a sample in training, the mean over samples.
    """

    def __init__(self, flags: Flags, V: int, T: np.ndarray):
        """
        Args:
            V: entries of the dictionary, <mask> included.
            T: [samples] tokens of each, before expansion.
        """
        from fs_plugins.models import architectures  # takes seconds

        arch = flags.value("--arch") or ""
        size = next((part for part in ("large", "smiles", "tiny") if part in arch), "base")
        names = [f"--encoder-{what}" for what in ("layers", "embed-dim", "ffn-embed-dim", "attention-heads")]
        sizes = zip(names, getattr(architectures, size.upper()), strict=True)
        layers, d, ffn, heads = (flags.whole(*both) for both in sizes)
        exlm, copies = "--ext-state-num" in flags, flags.whole("--repeat-times", 1)
        k, p = flags.whole("--ext-state-num", 1), flags.proportion("--mask-prob")
        first = int(flags.value("--expand-from-layer") or 0)  # layers before the expansion
        first = layers if first == -1 else first
        layer = 4 * (d * d + d) + 2 * d * ffn + ffn + d + 4 * d  # attention, feed-forward, two norms
        head = d * d + d + 2 * d + V  # dense, norm, bias; the output matrix is the embedding
        self.parameters = V * d + layers * layer + 2 * d + head
        if exlm:
            positions = flags.whole("--max-positions") + 2
            self.parameters += positions * d + 2 * (2 * d * d + d) + 2 * d * heads + heads

        targets = p * T * copies + 2 * exlm  # masked tokens; for ExLM with <s> and </s>
        self.tokens = T * copies + targets * (k - 1)
        outputs = targets * k  # where the vocabulary is computed
        products = outputs * (d * d + d * V)
        for n, E in ((first, T), (layers - first, self.tokens)):
            products = products + n * E * (4 * d * d + 2 * d * ffn + 2 * E * d)
        if flags.value("--criterion") == "nat_dag_loss_mlm":
            graph = outputs * 2 * d * (2 * d + heads) + outputs**2 * d / 2 + targets * outputs**2 / 2
            products = products + graph
        self.flops = float(np.mean(3 * 2 * products))


def lengths(data: str, flags: Flags) -> np.ndarray:
    """Tokens of the samples, with their ``<s>``: those of the training set where each sentence is a sample
    (--sample-break-mode eos), else one sample of --tokens-per-sample.

    Args:
        data: folders, joined by ':'.
    """
    longest, folders = flags.whole("--tokens-per-sample"), data.split(":")
    if flags.value("--sample-break-mode") != "eos":
        return np.array([longest])
    if not all(Path(folder, "train.idx").is_file() for folder in folders):
        return np.array([min(MOLECULE, longest)])
    from fairseq.data import data_utils  # takes seconds

    datasets = [data_utils.load_indexed_dataset(str(Path(folder, "train")), None) for folder in folders]
    found = np.concatenate([dataset.sizes for dataset in datasets]) + 1  # a copy: sizes go with their dataset
    return found[found <= longest]


def cost_of(data: str, flags: Flags) -> tuple[Cost, np.ndarray, float]:
    """(the cost, the samples' lengths, samples of an update) of a call of fairseq-train."""
    dictionary, T = Path(data.split(":")[0], "dict.txt"), lengths(data, flags)
    V = SMILES_ENTRIES if "smiles" in (flags.value("--arch") or "") else TEXT_ENTRIES
    if dictionary.is_file():
        from fairseq.data import Dictionary  # takes seconds

        V = len({*Dictionary.load(str(dictionary)).symbols, "<mask>"})
    samples = flags.whole("--batch-size", 1)
    if "--batch-size" not in flags:
        samples = flags.whole("--max-tokens") / T.mean()
    for flag in ("--update-freq", "--distributed-world-size"):
        samples *= flags.whole(flag, 1)
    return Cost(flags, V, T), T, samples


def flops_of_run(words: list[str]) -> float:
    """FLOPs of a training by its call ``["fairseq-train", DATA, "--user-dir", ...]``."""
    flags = Flags.of(words[2:])
    cost, _, samples = cost_of(words[1], flags)
    return cost.flops * samples * flags.whole("--max-update")


def cost_text(data: str, flags: Flags, card: str) -> str:
    """The cost in words.

    Args:
        card: of CARDS.
    """
    if card not in CARDS:
        raise UserError(f"--card {card}: choose one of {', '.join(CARDS)}")
    cost, T, samples = cost_of(data, flags)
    updates, workers = flags.whole("--max-update"), flags.whole("--distributed-world-size")
    flops = cost.flops * samples * updates
    hours = flops / (CARDS[card] * 1e12 * UTILIZATION * workers) / 3600
    about = f"about {hours:,.1f}" if hours >= 0.05 else "less than 0.1"
    before, after = samples * T.mean(), samples * cost.tokens.mean()
    dictionary = Path(data.split(":")[0], "dict.txt")
    assumed = f"assumed           the paper's dictionary: {dictionary} does not exist"
    return "\n".join(
        [
            f"parameters        {cost.parameters:,}",
            *([] if dictionary.is_file() else [assumed]),
            f"tokens an update  {before:,.0f}; expanded {after:,.0f} ({after / before:.2f} times)",
            f"tokens in all     {before * updates:,.0f} in {updates:,} updates",
            f"FLOPs             {flops:.3g}",
            f"hours             {about} on {workers} x {card} at half of {CARDS[card]} TFLOP/s",
        ]
    )
