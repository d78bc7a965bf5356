"""Tables 1, 3 and 9: fine-tuned models beside the paper's, and the sets of MoleculeNet."""

from __future__ import annotations

import statistics
from pathlib import Path

import pandas as pd
from lib.command_line import UserError
from lib.files import CONFIGS
from lib.glue.tasks import points_of
from lib.moleculenet.datasets import KNOWN
from lib.report import frame
from lib.report.page import Page
from lib.study.runs import targets
from lib.tables import over_seeds, text


def chosen(results: pd.DataFrame) -> pd.DataFrame:
    """The results that count: of several points of a task's grid, the one that is best with the seed that
    most points have.

    Raises:
        UserError: if two are of one model, task, point and seed.
    """
    keys = ["model", "task", "point", "seed"]
    same = results[results.duplicated(keys, keep=False)].sort_values(keys)
    if len(same):
        one, other = same.iloc[:2].to_dict("records")
        raise UserError(
            f"{one['model']}: seed {one['seed']} of {one['task']} is in {one['path'].parent} and in "
            f"{other['path'].parent}: give the folder of a single model, and its name as NAME=DIR"
        )
    parts = []
    for _, part in results.groupby(["model", "task"], sort=False):
        if part["point"].nunique() > 1:
            first = part[part["seed"] == part.groupby("seed")["point"].nunique().sort_index().idxmax()]
            seeds = first["point"].map(part["point"].value_counts())  # of equals what was chosen has more
            part = part[part["point"] == first.loc[(first["score"] + 1e-9 * seeds).idxmax(), "point"]]
        parts.append(part.sort_values("seed"))
    return pd.concat(parts)


def add_table(page: Page, name: str, every: pd.DataFrame, grid: list | None = None) -> None:
    """Table 1, a table of regressions like it, or table 3: a row a model.

    Args:
        every: the results, of lib.report.frame.finetunings, with ``expected`` seeds, 0 if that is not known.
        grid: table 3's settings ``grid`` and ``only``, if they are known.
    """
    results, of_table3 = chosen(every), name == "table3"
    theirs = pd.DataFrame()
    if name != "regressions":
        theirs = pd.read_csv(CONFIGS / "paper" / f"{name}.csv", index_col="model").rename(columns=frame.title)
    own = [] if of_table3 else sorted({frame.title(task) for task in results["task"]} - {*theirs})
    order, averaged = [*theirs, *own], [one for one in theirs if one not in ("MEAN", "MNLI-mm", "EM", "F1")]
    rows = [[model, *(text(row.get(one)) or "-" for one in order)] for model, row in theirs.iterrows()]
    for model, part in results.groupby("model", sort=False):
        cells, ours = {}, {}
        for one in (one for one in order if one in part and part[one].notna().any()):
            found = part[part[one].notna()]
            expected = part["expected"].iloc[0] or (0 if of_table3 else results["seed"].nunique())
            ours[one] = over_seeds(found[one], expected, of_table3)
            cells[one] = ours[one].text(3 if name == "regressions" else 1)
            cells[one] += _marks(found, every, grid) if of_table3 else ""
        centres = [ours[one].centre for one in averaged if one in ours]
        if centres:
            some = f" ({len(centres)} of {len(averaged)})" if len(centres) < len(averaged) else ""
            cells["MEAN"] = f"{statistics.fmean(centres):.1f}{some}"
        rows.append([f"{model} (ours)", *(cells.get(one, "-") for one in order)])
    target = targets().get(name)
    page.heading(2, target.title if target else "Regressions of molecular properties: RMSE in their units")
    page.text(target.note if target else "Means ± standard deviations over seeds, on test sets.")
    page.table(pd.DataFrame(rows, columns=["model", *order]))
    page.list([] if of_table3 else _remarks(results))


def _marks(part: pd.DataFrame, every: pd.DataFrame, grid: list | None) -> str:
    """What follows a cell of table 3."""
    marks = ("" if part["whole"].all() else "†") + ("‡" if part["from_mnli"].any() else "")
    model, task = part["model"].iloc[0], part["task"].iloc[0]
    found = every["point"][(every["model"] == model) & (every["task"] == task)].nunique()
    asked = len(points_of(task, *grid)) if grid else found
    return marks + (f" ({found} of {asked} points)" if found < asked else "")


def _remarks(results: pd.DataFrame) -> list[str]:
    """What keeps the numbers of a set of molecules from being compared."""
    found = []
    for row in results.to_dict("records"):
        which = f"{row['model']}, {row['task']}, seed {row['seed']}"
        if row["unreadable"]:
            found.append(f"{which}: {row['unreadable']} unreadable molecules get the training set's mean")
        if row["split"] == "random" and row["task"] in KNOWN:
            found.append(f"{which}: a random split; the paper's are by scaffold")
    for task, part in results.groupby("task", sort=False):
        if part["test"].nunique() > 1:
            models = ", ".join(part.drop_duplicates("test")["model"])
            found.append(f"{task}: not all results are of the same test molecules: {models} differ")
    return found


def add_table9(page: Page, folders: dict[str, str], problems: list[str]) -> None:
    """The sets of MoleculeNet as they were prepared, beside the paper's.

    Args:
        folders: set -> folder of scripts/prepare_moleculenet.py.
    """
    rows = []
    for one in pd.read_csv(CONFIGS / "paper" / "table9.csv").itertuples():
        row = {"set": frame.title(one.set), "type": one.type, "tasks: paper": f"{one.tasks}"}
        row["molecules: paper"] = f"{one.train:,}/{one.valid:,}/{one.test:,}"
        found = frame.read(Path(folders[one.set], "molecules.json"), problems) if one.set in folders else {}
        if found:
            row |= {"tasks: ours": f"{len(found['names'])}", "split: ours": found["split"]["kind"]}
            row["molecules: ours"] = "/".join(f"{size['molecules']:,}" for size in found["sizes"].values())
        rows.append(row)
    page.heading(2, targets()["table9"].title)
    page.text(targets()["table9"].note)
    page.table(pd.DataFrame(rows).fillna("-"))
