"""What a pre-training will cost, from its flags alone: parameters, tokens, FLOPs, hours.

Samples of different lengths count as such. Hours are those of the training steps, on its
GPUs at the share of the peak that was measured.
"""

from pathlib import Path

import numpy as np
from fairseq.data import data_utils
from lib.command_line import Flags, counted

from fs_plugins.criterions import trains_transitions
from fs_plugins.data.vocabulary import Vocabulary
from fs_plugins.models import cost
from fs_plugins.models.cost import Cost

# peak in TFLOP/s, half precision, dense, by the makers' data sheets
CARDS = {"V100": 125, "RTX-3090": 71, "RTX-4090": 165, "A100": 312, "L40S": 362, "H100": 989, "H200": 989}
# (card, arch): the share of this peak that a step reached, forward and backward, 64 x 128 tokens in bfloat16,
# eager, by scripts/benchmarks/bench_step.py; and when. roberta_base is fairseq's. Others are taken to reach
# that of USUAL.
MEASURED = {("H100", "exlm_base"): (0.16, "2026-11-26"), ("H100", "roberta_base"): (0.14, "2026-11-26")}
USUAL = "H100", "exlm_base"
# assumed before the data exist: entries of the paper's dictionaries, tokens of a typical molecule
TEXT_ENTRIES, SMILES_ENTRIES, MOLECULE = 50_265, 369, 48


def lengths(data: str, flags: Flags) -> np.ndarray:
    """Returns the tokens of the samples, with their ``<s>``: those of the training sets (folders joined by
    ':') where each sentence is a sample (--sample-break-mode eos), else one sample of --tokens-per-sample."""
    longest, folders = flags.whole("--tokens-per-sample"), data.split(":")
    if flags.value("--sample-break-mode") != "eos":
        return np.array([longest])
    if not all(Path(folder, "train.idx").is_file() for folder in folders):
        return np.array([min(MOLECULE, longest)])
    datasets = [data_utils.load_indexed_dataset(str(Path(folder, "train")), None) for folder in folders]
    sizes = np.concatenate([dataset.sizes for dataset in datasets]) + 1  # a copy: sizes go with their dataset
    return sizes[(sizes > 2) & (sizes <= longest)]  # empty ones are no samples


def cost_of(data: str, flags: Flags) -> tuple[Cost, np.ndarray, float]:
    """Returns (the cost, the samples' lengths, samples of an update) of a call of fairseq-train."""
    dictionary, T = Path(data.split(":")[0], "dict.txt"), lengths(data, flags)
    V = SMILES_ENTRIES if "smiles" in (flags.value("--arch") or "") else TEXT_ENTRIES
    if dictionary.is_file():
        V = len(Vocabulary.read(dictionary).symbols)
    samples = flags.whole("--batch-size", 1)
    if "--batch-size" not in flags:
        samples = flags.whole("--max-tokens") / flags.whole("--repeat-times", 1) / T.mean()
    for flag in ("--update-freq", "--distributed-world-size"):
        samples *= flags.whole(flag, 1)
    return of_model(flags, V, T), T, samples


def of_model(flags: Flags, V: int, T: np.ndarray) -> Cost:
    """Returns the cost of samples of these lengths; ``V`` entries of the dictionary."""
    transitions = trains_transitions(flags.value("--criterion"))
    return cost.cost_of(flags.words(), V, T, flags.proportion("--mask-prob"), transitions)


def hours_of(flops: float, card: str, arch: str | None = None) -> float:
    """Returns the hours that one card of CARDS takes."""
    share, _ = MEASURED.get((card, arch), MEASURED[USUAL])
    return flops / (CARDS[card] * 1e12 * share) / 3600


def cost_text(data: str, flags: Flags, card: str) -> str:
    """Returns the cost in words, on a card of CARDS."""
    about, T, samples = cost_of(data, flags)
    updates, workers = flags.whole("--max-update"), flags.whole("--distributed-world-size")
    flops, arch = about.flops * samples * updates, flags.value("--arch")
    share, date = MEASURED.get((card, arch), MEASURED[USUAL])
    source = f"the share of {USUAL[1]} on an {USUAL[0]}, {date}"
    if (card, arch) in MEASURED:
        source = f"measured {date}"
    hours = hours_of(flops, card, arch) / workers
    shown = f"about {hours:,.1f}" if hours >= 0.05 else "less than 0.1"
    before, after = samples * T.mean(), samples * about.tokens.mean()
    slower = "; the CPU takes far longer" if "--cpu" in flags else ""
    dictionary = Path(data.split(":")[0], "dict.txt")
    lines = [f"parameters        {about.parameters:,}"]
    if not dictionary.is_file():
        lines.append(f"assumed           the paper's dictionary: {dictionary} does not exist")
    lines += [
        f"tokens an update  {before:,.0f}; expanded {after:,.0f} ({after / before:.2f} times)",
        f"tokens in all     {before * updates:,.0f} in {counted(updates, 'update')}",
        f"FLOPs             {flops:.3g}",
        f"hours             {shown} on {workers} x {card} at {share:.0%} of {CARDS[card]} TFLOP/s{slower}",
        f"                  ({source})",
    ]
    return "\n".join(lines)
