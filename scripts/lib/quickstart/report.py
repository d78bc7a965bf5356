"""What the models of the quickstart have learned, as a table and a picture.

    python -m lib.quickstart.report OUTPUT P SENTENCE

Every checkpoint in OUTPUT/{mlm,exlm,exlm-lattice} predicts the same masked tokens of the validation set, a
share P, all of a sample together (fs_plugins/analysis/joint_likelihood.py). exlm-lattice then fills the masks
of SENTENCE. Writes OUTPUT/table.txt and curve.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fs_plugins.analysis import load, load_checkpoint
from fs_plugins.analysis.joint_likelihood import joint_likelihood
from fs_plugins.analysis.masked_prediction import MaskedPredictor
from fs_plugins.analysis.masked_samples import load_samples
from lib.command_line import run_main
from lib.figures import COLOURS, png
from lib.files import atomic, read_json, write_json, write_lines
from lib.logs import read_log, training_seconds

FILLING = "exlm-lattice"
MODELS = {"mlm": "MLM", "exlm": "ExLM, the paper's", FILLING: "ExLM, states on a lattice"}
STARTS = {"pretrained": "pre-trained ExLM", "scratch": "the same model from scratch"}
FREQUENCIES = "frequencies of the tokens alone"
SAMPLES = 500  # of the validation set


def curve(folder: Path, p: float) -> list[dict]:
    """The joint likelihood by a model's checkpoints, by updates; kept in joint.json."""
    measured = read_json(folder / "joint.json") or {}
    for path in (*folder.glob("checkpoint_*_*.pt"), folder / "checkpoint_last.pt"):
        checkpoint = load_checkpoint(path, device="cpu")
        updates = str(checkpoint.updates)
        if updates not in measured:
            found = joint_likelihood(
                MaskedPredictor.of(checkpoint), load_samples(checkpoint, count=SAMPLES), p
            )
            values = {name: found[name].mean for name in ("joint", "marginal", "gain")}
            measured[updates] = {"updates": checkpoint.updates, "tokens": found["joint"].tokens, **values}
            write_json(folder / "joint.json", measured)
    return sorted(measured.values(), key=lambda point: point["updates"])


def frequency_bits(data: Path) -> float:
    """Bits a token of the validation set, if predicted by its frequency in the training set."""
    from fairseq.data import Dictionary, data_utils  # after matplotlib, whose messages it would let through

    dictionary, counts = Dictionary.load(str(data / "dict.txt")), []
    dictionary.add_symbol("<mask>")
    for split in ("train", "valid"):
        sentences = data_utils.load_indexed_dataset(str(data / split), dictionary)
        tokens = np.concatenate([sentences[i].numpy() for i in range(len(sentences))])
        counts.append(np.bincount(tokens, minlength=len(dictionary))[dictionary.nspecial :])
    train, valid = counts[0] + 1, counts[1]
    return float(-(valid * np.log2(train / train.sum())).sum() / valid.sum())


def verdict(bits: dict[str, float]) -> str:
    """Which model is ahead, from the bits a masked token of each."""
    (first, least), (second, next_least) = sorted(bits.items(), key=lambda item: item[1])[:2]
    if f"{least:.2f}" == f"{next_least:.2f}":
        return f"'{first}' and '{second}' predict the masked tokens best, and equally well."
    return f"'{first}' predicts the masked tokens best, {next_least - least:.2f} bits ahead of '{second}'."


def table(output: Path, curves: dict[str, list[dict]], frequencies: float) -> list[str]:
    rows = [f"{'bits a masked token':<34}{'jointly':>9}{'one by one':>12}{'gain':>7}{'minutes':>9}"]
    for name, title in MODELS.items():
        last = curves[name][-1]
        minutes = (training_seconds(read_log(output / name / "train.log")) or 0) / 60
        bits = f"{last['joint']:>9.2f}{last['marginal']:>12.2f}{last['gain']:>7.2f}"
        rows.append(f"  {title:<32}{bits}{minutes:>9.1f}")
    rows += [f"  {FREQUENCIES:<32}{frequencies:>9.2f}", ""]
    rows.append(verdict({title: curves[name][-1]["joint"] for name, title in MODELS.items()}))
    rows.append(f"All predict the same {last['tokens']:,} tokens. Other seeds differ: see docs/results.md.")
    if (output / "finetune").is_dir():
        rows += ["", f"{'Crippen logP of test molecules':<34}{'RMSE':>20}"]
        for name, title in STARTS.items():
            metrics = read_json(output / "finetune" / name / "metrics.json")
            rows.append(f"  {title:<32}{metrics['test']['rmse']:>20.3f}")
    return rows


def draw(curves: dict[str, list[dict]], frequencies: float) -> Figure:
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for (name, points), colour in zip(curves.items(), COLOURS, strict=False):
        updates, bits = zip(*((point["updates"], point["joint"]) for point in points), strict=True)
        axes.plot(updates, bits, "o-", color=colour, markersize=4, label=MODELS[name])
    axes.axhline(frequencies, color="gray", linestyle="--", linewidth=1, label=FREQUENCIES)
    axes.set(xlabel="updates", ylabel="joint bits per masked token (validation)", xlim=(0, None))
    axes.grid(alpha=0.25)
    axes.legend(framealpha=1, edgecolor="none")
    return figure


def main() -> None:
    output, p, sentence = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    curves = {name: curve(output / name, p) for name in MODELS}
    frequencies = frequency_bits(output / "data-bin")
    rows = table(output, curves, frequencies)
    filled = load(output / FILLING / "checkpoint_last.pt", device="cpu").fill(sentence, samples=0).best
    rows += ["", f"{MODELS[FILLING]} fills  {sentence}", f"with  {filled.text}"]
    with atomic(output / "curve.png", "wb") as file:
        file.write(png(draw(curves, frequencies)))
    write_lines(output / "table.txt", rows)
    print("\n".join(["", *rows, "", f"picture: {output / 'curve.png'}"]))


if __name__ == "__main__":
    sys.exit(run_main(main))
