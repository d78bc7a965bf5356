"""What the models of the quickstart have learned, as a table and a picture.

    python -m lib.report.quickstart OUTPUT SENTENCE

OUTPUT/joint.json has the joint likelihood of every checkpoint in OUTPUT/{mlm,exlm}
(``python -m fs_plugins.measures joint``). exlm fills the masks of SENTENCE. Writes OUTPUT/table.txt and the
curves by updates.png and seconds.png.
"""

import sys
from pathlib import Path

import pandas as pd
from lib.command_line import script
from lib.files import read_json, write_lines
from lib.report import figures
from lib.run.logs import read_log

from fs_plugins.files import atomic
from fs_plugins.inference import load

MODELS = {"mlm": "MLM", "exlm": "ExLM (paper)"}
# columns of the table: of all tokens of a sample together, and one by one
BITS = {"joint.mean": "jointly", "marginal.mean": "one by one", "gain.mean": "gain"}


def read(output: Path) -> pd.DataFrame:
    """Returns bits per masked token of each checkpoint, in the order of updates, and the seconds to there."""
    results = read_json(output / "joint.json")["rows"]
    measured = pd.json_normalize(results, "results", ["checkpoint", "updates"]).rename(columns=BITS)
    names = [Path(path).parent.name for path in measured["checkpoint"]]
    spent = {name: seconds(output / name / "train.log") for name in MODELS}
    at = [spent[name].get(update) for name, update in zip(names, measured["updates"], strict=True)]
    return measured.assign(model=[MODELS[name] for name in names], seconds=at)


def seconds(log: Path) -> pd.Series:
    """Returns the seconds to each update that was logged; fairseq's ``wall`` starts anew when it resumes."""
    wall = pd.DataFrame(read_log(log)).groupby("update")["wall"].max().dropna()
    return wall.diff().where(lambda passed: passed >= 0, wall).cumsum()


def table(measured: pd.DataFrame) -> list[str]:
    """Returns the lines of table.txt."""
    last = measured.groupby("model", sort=False).last().rename_axis(None)
    bits = last[list(BITS.values())].to_string(float_format="{:z.2f}".format)
    same = (
        f"All predict the same {last['joint.tokens'].iloc[0]:,} tokens. Other seeds differ: docs/results.md."
    )
    return ["Bits per masked token (lower is better)", bits, "", same]


@script
def main() -> None:
    output, sentence = Path(sys.argv[1]), sys.argv[2]
    measured = read(output)
    filled = load(output / "exlm" / "checkpoint_last.pt", device="cpu").fill(sentence)
    rows = [*table(measured), "", f"{MODELS['exlm']} fills  {sentence}", f"with  {filled.text}"]
    for by in ("updates", "seconds"):
        points = measured.rename(columns={"model": "label", by: "x", "jointly": "y"})
        curve = figures.lines(points, "joint bits per masked token, validation (lower is better)", by)
        with atomic(output / f"{by}.png", "wb") as file:
            file.write(figures.picture(curve))
    write_lines(output / "table.txt", rows)
    print("\n".join(["", *rows, "", f"pictures: {output}/updates.png, {output}/seconds.png"]))
