"""What the models of the quickstart have learned, as a table and a picture.

    python -m lib.quickstart.report OUTPUT P SENTENCE

Every checkpoint in OUTPUT/{mlm,exlm,exlm-lattice} predicts the same masked tokens of the validation set, a
share P, all of a sample together (fs_plugins/analysis/masked_measures.py). exlm-lattice then fills the masks
of SENTENCE. Writes OUTPUT/table.txt and curve.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from fs_plugins.analysis import load, load_checkpoint
from fs_plugins.analysis.masked_measures import joint_likelihood
from fs_plugins.analysis.masked_prediction import MaskedPredictor
from fs_plugins.analysis.masked_samples import load_samples
from lib import figures
from lib.command_line import run_main
from lib.files import atomic, read_json, write_json, write_lines
from lib.tables import Value

FILLING = "exlm-lattice"
MODELS = {"mlm": "MLM", "exlm": "ExLM, the paper's", FILLING: "ExLM, states on a lattice"}
STARTS = {"pretrained": "pre-trained ExLM", "scratch": "the same model from scratch"}
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


def table(output: Path, curves: dict[str, pd.DataFrame]) -> list[str]:
    last = pd.DataFrame({MODELS[name]: points.iloc[-1] for name, points in curves.items()}).T
    bits = last.rename(columns={"joint": "jointly", "marginal": "one by one"})
    shown = bits[["jointly", "one by one", "gain"]].map("{:.2f}".format).to_string().splitlines()
    tokens = int(last["tokens"].iloc[0])
    rows = ["Bits per masked token", *shown, ""]
    rows.append(f"All predict the same {tokens:,} tokens. Other seeds differ: see docs/results.md.")
    if (output / "finetune").is_dir():
        results = {title: output / "finetune" / name / "result.json" for name, title in STARTS.items()}
        errors = {
            title: f"{read_json(path)['metrics']['test']['rmse']:.3f}" for title, path in results.items()
        }
        found = pd.Series(errors, name="RMSE").to_frame().to_string().splitlines()
        rows += ["", "Crippen logP of test molecules", *found]
    return rows


def draw(curves: dict[str, pd.DataFrame]):
    lines = {
        MODELS[name]: {x: Value((bits,)) for x, bits in points.set_index("updates")["joint"].items()}
        for name, points in curves.items()
    }
    return figures.lines(lines, "joint bits per masked token (validation)", "updates")


def main() -> None:
    output, p, sentence = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    curves = {name: curve(output / name, p) for name in MODELS}
    rows = table(output, curves)
    filled = load(output / FILLING / "checkpoint_last.pt", device="cpu").fill(sentence, samples=0).best
    rows += ["", f"{MODELS[FILLING]} fills  {sentence}", f"with  {filled.text}"]
    with atomic(output / "curve.png", "wb") as file:
        file.write(figures.png(draw(curves)))
    write_lines(output / "table.txt", rows)
    print("\n".join(["", *rows, "", f"picture: {output / 'curve.png'}"]))


if __name__ == "__main__":
    sys.exit(run_main(main))
