"""What the models of the quickstart have learned, as a table and a picture.

    python -m lib.report.quickstart OUTPUT P SENTENCE

Every checkpoint in OUTPUT/{mlm,exlm,exlm-lattice} predicts the same masked tokens of the validation set, a
share P, all of a sample together (fs_plugins/measures/masked_measures.py). exlm-lattice then fills the masks
of SENTENCE. Writes OUTPUT/table.txt, curve.png and curve.svg.
"""

import sys
from pathlib import Path

import pandas as pd
from lib.command_line import script
from lib.files import read_json, write_lines
from lib.report import figures
from lib.report.tables import Value

from fs_plugins.files import atomic
from fs_plugins.inference import load
from fs_plugins.measures.masked_measures import joint_likelihood
from fs_plugins.measures.masked_samples import load_samples

LATTICE = "exlm-lattice"
STARTS = {"pretrained": "pre-trained ExLM", "scratch": "the same model from scratch"}
LAST = "checkpoint_last.pt"
SAMPLES = 500  # sentences of the validation set


def measure(path: Path, p: float) -> dict:
    """Returns bits per masked token of a checkpoint: of all of a sample together, and one by one."""
    model = load(path, device="cpu")
    joint = joint_likelihood(model.predictor, load_samples(model.checkpoint, count=SAMPLES), p)
    bits = {"jointly": joint["joint"], "one by one": joint["marginal"], "gain": joint["gain"]}
    return {
        "model": figures.QUICKSTART[path.parent.name],
        "updates": model.checkpoint.updates,
        "tokens": joint["joint"].tokens,
        **{name: mean.mean for name, mean in bits.items()},
    }


def table(output: Path, measured: pd.DataFrame) -> list[str]:
    """Returns the lines of table.txt."""
    last = measured.groupby("model", sort=False).last().rename_axis(None)
    bits = last[["jointly", "one by one", "gain"]].to_string(float_format="{:z.2f}".format)
    same = f"All predict the same {last['tokens'].iloc[0]:,} tokens. Other seeds differ: docs/results.md."
    rows = ["Bits per masked token (lower is better)", bits, "", same]
    if (finetuned := output / "finetune").is_dir():
        results = {title: read_json(finetuned / name / "result.json") for name, title in STARTS.items()}
        errors = {title: result["metrics"]["test"]["rmse"] for title, result in results.items()}
        shown = pd.DataFrame({"RMSE": errors}).to_string(float_format="%.3f")
        rows += ["", "Crippen logP of test molecules, an error (lower is better)", shown]
        rows += ["So short a pre-training need not help: with as many labels, either may be ahead."]
    return rows


def draw(measured: pd.DataFrame):
    lines = {
        model: {x: Value((bits,)) for x, bits in zip(runs["updates"], runs["jointly"], strict=True)}
        for model, runs in measured.groupby("model", sort=False)
    }
    return figures.lines(lines, "joint bits per masked token, validation", "updates", better="lower")


@script
def main() -> None:
    output, p, sentence = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    paths = [path for name in figures.QUICKSTART for path in (output / name).glob("checkpoint_*_*.pt")]
    paths += [output / name / LAST for name in figures.QUICKSTART]
    measured = pd.DataFrame([measure(path, p) for path in paths]).sort_values("updates", kind="stable")
    rows = table(output, measured)
    filled = load(output / LATTICE / LAST, device="cpu").fill(sentence)
    rows += ["", f"{figures.QUICKSTART[LATTICE]} fills  {sentence}", f"with  {filled.text}"]
    for form in ("svg", "png"):
        with atomic(output / f"curve.{form}", "wb") as file:
            file.write(figures.picture(draw(measured), form))
    write_lines(output / "table.txt", rows)
    print("\n".join(["", *rows, "", f"picture: {output / 'curve.png'}"]))
