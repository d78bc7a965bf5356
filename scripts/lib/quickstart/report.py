"""What the models of the quickstart have learned, as a table and a picture.

    python -m lib.quickstart.report OUTPUT P SENTENCE

Every checkpoint in OUTPUT/{mlm,exlm,exlm-lattice} predicts the same masked tokens of the validation set, a
share P, all of a sample together (fs_plugins/analysis/masked_measures.py). exlm-lattice then fills the masks
of SENTENCE. Writes OUTPUT/table.txt and curve.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from fs_plugins.analysis import load, load_checkpoint
from fs_plugins.analysis.masked_measures import joint_likelihood
from fs_plugins.analysis.masked_prediction import MaskedPredictor
from fs_plugins.analysis.masked_samples import load_samples
from lib import figures
from lib.command_line import run_main
from lib.files import atomic, read_json, write_json, write_lines
from lib.logs import read_log, training_seconds
from lib.tables import Value

FILLING = "exlm-lattice"
MODELS = {"mlm": "MLM", "exlm": "ExLM, the paper's", FILLING: "ExLM, states on a lattice"}
STARTS = {"pretrained": "pre-trained ExLM", "scratch": "the same model from scratch"}
FREQUENCIES = "frequencies of the tokens alone"
SAMPLES = 500  # of the validation set


def curve(folder: Path, p: float) -> pd.DataFrame:
    """The joint likelihood by a model's checkpoints, a row each, by updates; kept in joint.json."""
    measured = read_json(folder / "joint.json") or {}
    for path in (*folder.glob("checkpoint_*_*.pt"), folder / "checkpoint_last.pt"):
        checkpoint = load_checkpoint(path, device="cpu")
        if (updates := str(checkpoint.updates)) not in measured:
            samples = load_samples(checkpoint, count=SAMPLES)
            found = joint_likelihood(MaskedPredictor.of(checkpoint), samples, p)
            values = {name: found[name].mean for name in ("joint", "marginal", "gain")}
            measured[updates] = {"updates": checkpoint.updates, "tokens": found["joint"].tokens, **values}
            write_json(folder / "joint.json", measured)
    return pd.DataFrame(measured.values()).sort_values("updates")


def frequency_bits(data: Path) -> float:
    """Bits per token of the validation set, if predicted by its frequency in the training set."""
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
    """Which model is ahead, from the bits per masked token of each."""
    (first, least), (second, next_least) = sorted(bits.items(), key=lambda item: item[1])[:2]
    if f"{least:.2f}" == f"{next_least:.2f}":
        return f"'{first}' and '{second}' predict the masked tokens best, and equally well."
    return f"'{first}' predicts the masked tokens best, {next_least - least:.2f} bits ahead of '{second}'."


def table(output: Path, curves: dict[str, pd.DataFrame], frequencies: float) -> list[str]:
    last = pd.DataFrame({MODELS[name]: points.iloc[-1] for name, points in curves.items()}).T
    last["minutes"] = [(training_seconds(read_log(output / name / "train.log")) or 0) / 60 for name in curves]
    bits = (
        last[["joint", "marginal", "gain"]]
        .map("{:.2f}".format)
        .assign(minutes=last["minutes"].map("{:.1f}".format))
    )
    bits.loc[FREQUENCIES] = [f"{frequencies:.2f}", "", "", ""]
    titles = {"joint": "jointly", "marginal": "one by one"}
    rows = ["Bits per masked token", *bits.rename(columns=titles).to_string().splitlines(), ""]
    rows.append(verdict(last["joint"].to_dict()))
    tokens = int(last["tokens"].iloc[0])
    rows.append(f"All predict the same {tokens:,} tokens. Other seeds differ: see docs/results.md.")
    if (output / "finetune").is_dir():
        metrics = {
            title: read_json(output / "finetune" / name / "result.json") for name, title in STARTS.items()
        }
        found = pd.DataFrame(
            {"RMSE": {title: f"{one['metrics']['test']['rmse']:.3f}" for title, one in metrics.items()}}
        )
        rows += ["", "Crippen logP of test molecules", *found.to_string().splitlines()]
    return rows


def draw(curves: dict[str, pd.DataFrame], frequencies: float):
    values = {MODELS[name]: points.set_index("updates")["joint"] for name, points in curves.items()}
    values[FREQUENCIES] = {0: frequencies, max(line.index.max() for line in values.values()): frequencies}
    lines = {label: {x: Value((bits,)) for x, bits in line.items()} for label, line in values.items()}
    styles = {
        label: {"color": colour, "marker": "o"} for label, colour in zip(lines, figures.COLOURS, strict=False)
    }
    styles[FREQUENCIES] = {"color": figures.PAPER_COLOUR, "ls": "--"}
    return figures.lines(lines, "joint bits per masked token (validation)", "updates", styles=styles)


def main() -> None:
    output, p, sentence = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    curves = {name: curve(output / name, p) for name in MODELS}
    frequencies = frequency_bits(output / "data-bin")
    rows = table(output, curves, frequencies)
    filled = load(output / FILLING / "checkpoint_last.pt", device="cpu").fill(sentence, samples=0).best
    rows += ["", f"{MODELS[FILLING]} fills  {sentence}", f"with  {filled.text}"]
    with atomic(output / "curve.png", "wb") as file:
        file.write(figures.png(draw(curves, frequencies)))
    write_lines(output / "table.txt", rows)
    print("\n".join(["", *rows, "", f"picture: {output / 'curve.png'}"]))


if __name__ == "__main__":
    sys.exit(run_main(main))
