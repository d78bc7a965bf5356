"""What the models of the quickstart have learned, as a table and a picture.

    python -m lib.report.quickstart OUTPUT SENTENCE

OUTPUT/joint.json has the joint likelihood of every checkpoint in OUTPUT/{mlm,exlm}
(``python -m fs_plugins.measures joint``). exlm fills the masks of SENTENCE. Writes OUTPUT/table.txt and
curve.png.
"""

import sys
from pathlib import Path

import pandas as pd
from lib.command_line import script
from lib.files import read_json, write_lines
from lib.report import figures

from fs_plugins.files import atomic
from fs_plugins.inference import load

MODELS = {"mlm": "MLM", "exlm": "ExLM (paper)"}
STARTS = {"pretrained": "pre-trained ExLM", "scratch": "the same model from scratch"}
# columns of the table: of all tokens of a sample together, and one by one
BITS = {"joint.mean": "jointly", "marginal.mean": "one by one", "gain.mean": "gain"}


def read(output: Path) -> pd.DataFrame:
    """Returns bits per masked token of each checkpoint, in the order of updates."""
    results = read_json(output / "joint.json")["rows"]
    measured = pd.json_normalize(results, "results", ["checkpoint", "updates"]).rename(columns=BITS)
    return measured.assign(model=[MODELS[Path(path).parent.name] for path in measured["checkpoint"]])


def table(output: Path, measured: pd.DataFrame) -> list[str]:
    """Returns the lines of table.txt."""
    last = measured.groupby("model", sort=False).last().rename_axis(None)
    bits = last[list(BITS.values())].to_string(float_format="{:z.2f}".format)
    same = (
        f"All predict the same {last['joint.tokens'].iloc[0]:,} tokens. Other seeds differ: docs/results.md."
    )
    rows = ["Bits per masked token (lower is better)", bits, "", same]
    if (finetuned := output / "finetune").is_dir():
        results = {title: read_json(finetuned / name / "result.json") for name, title in STARTS.items()}
        errors = {title: result["metrics"]["test"]["rmse"] for title, result in results.items()}
        shown = pd.DataFrame({"RMSE": errors}).to_string(float_format="%.3f")
        rows += ["", "Crippen logP of test molecules, an error (lower is better)", shown]
        rows += ["So short a pre-training need not help: with as many labels, either may be ahead."]
    return rows


@script
def main() -> None:
    output, sentence = Path(sys.argv[1]), sys.argv[2]
    measured = read(output)
    filled = load(output / "exlm" / "checkpoint_last.pt", device="cpu").fill(sentence)
    rows = [*table(output, measured), "", f"{MODELS['exlm']} fills  {sentence}", f"with  {filled.text}"]
    points = measured.rename(columns={"model": "label", "updates": "x", "jointly": "y"})
    curve = figures.lines(points, "joint bits per masked token, validation (lower is better)", "updates")
    with atomic(output / "curve.png", "wb") as file:
        file.write(figures.picture(curve))
    write_lines(output / "table.txt", rows)
    print("\n".join(["", *rows, "", f"picture: {output / 'curve.png'}"]))
