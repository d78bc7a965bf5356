"""Tables 1, 3 and 9: fine-tuned models beside the paper's, and the sets of MoleculeNet."""

import itertools
import json
import math
import statistics
from pathlib import Path

import pandas as pd
from lib.files import CONFIGS, RESULT
from lib.finetuning.glue.tasks import TASKS, Point, points_of
from lib.finetuning.moleculenet.source import KNOWN
from lib.report.page import Page
from lib.report.study import DAMAGED, HALVES, read
from lib.report.tables import over_seeds, text
from lib.workflow.plan import SEEDS
from lib.workflow.runs import targets

COLUMNS = ("model", "path", "table", "task", "seed", "expected")
COLUMNS += ("point", "score", "from_mnli", "whole")  # of table 3
COLUMNS += ("split", "test")  # of molecules; a hash of the test set
# tables of what the paper has not
OWN = {
    "regressions": "Regressions: RMSE, of several in standard deviations",
    "multiclass": "Several classes: Matthews' correlation in %",
}
SQUAD, QUESTIONS = {"exact": "EM", "f1": "F1"}, 11_873  # of SQuAD 2.0's development set


def title(task: str) -> str:
    """Returns the paper's name of a set of MoleculeNet; all others as they are."""
    return KNOWN[task].title if task in KNOWN else task


def finetunings(name: str, folder: Path, problems: list[str]) -> pd.DataFrame:
    """Returns a row for each fine-tuning or baseline below a model's folder, with COLUMNS.

    Its numbers are in more columns, which are named as the paper's tables name them, such as ``MNLI-m``,
    ``F1`` or ``BBBP``; in percent, but of a regression.
    """
    rows = []
    for path in sorted(folder.rglob(RESULT)):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            about = {"model": name, "path": path, "task": content["task"], "seed": int(content["seed"])}
            rows.append({**about, **(_molecules if "kind" in content else _texts)(content)})
        except DAMAGED as error:
            problems.append(f"{path} is damaged: {error!r}")
    columns = dict.fromkeys([*COLUMNS, *(key for row in rows for key in row)])
    return pd.DataFrame(rows, columns=list(columns))


def _texts(content: dict) -> dict:
    """Returns the columns of a result on GLUE or SQuAD."""
    task, metrics, manifest = content["task"], content["metrics"], content["manifest"]
    point = Point(**{key: str(value) for key, value in manifest["settings"]["point"].items()}).key
    row = {"table": "table3", "point": point, "score": float(metrics["valid"][content["metric"]])}
    row["from_mnli"] = bool(manifest["inputs"].get("init_from"))
    if task not in TASKS:
        row["whole"] = metrics["valid"].get("total") == QUESTIONS
        return row | {column: metrics["valid"][metric] for metric, column in SQUAD.items()}
    rows, known = content["rows"], TASKS[task]
    row["whole"] = all(rows[split] == known.official[split] for split in ("train", *known.valid_splits))
    columns = HALVES if task == "MNLI" else {"valid": task}
    scores = {column: metrics[split].get(known.metric) for split, column in columns.items()}  # of --metrics
    return row | {column: 100 * score for column, score in scores.items() if score is not None}


def _molecules(content: dict) -> dict:
    """Returns the columns of a result on MoleculeNet; a metric that cannot be computed is not there."""
    test, regression = content["metrics"].get("test", {}), content["kind"] == "regression"
    table = {"classification": "table1", "regression": "regressions"}.get(content["kind"], "multiclass")
    row = {"table": table, "point": "", "test": test.get("rows_sha256")}
    row["split"] = content.get("split", {}).get("kind")
    score = test.get(content["metric"])
    return row | {title(content["task"]): score if regression or score is None else 100 * score}


def chosen(results: pd.DataFrame) -> pd.DataFrame:
    """Returns the results that count: of several points of a task's grid, those of the point that is best
    with the seed that most points have."""
    parts = []
    for _, part in results.groupby(["model", "task"], sort=False):
        if part["point"].nunique() > 1:
            first = part[part["seed"] == part.groupby("seed")["point"].nunique().sort_index().idxmax()]
            seeds = first["point"].map(part["point"].value_counts())  # of equals what was chosen has more
            part = part[part["point"] == first.loc[(first["score"] + 1e-9 * seeds).idxmax(), "point"]]
        parts.append(part.sort_values("seed"))
    return pd.concat(parts)


def add_tables(page: Page, output: Path, settings: dict, problems: list[str]) -> None:
    """Adds tables 1 and 3, and those of OWN, as far as a folder of the workflow has results."""
    labels = {run.name: run.label for target in targets().values() for run in target.runs}
    results = []
    for folder in sorted(output.glob("table[13]/*")):
        expected = settings.get("finetune_seeds") or SEEDS[folder.parent.name]
        found = finetunings(labels.get(folder.name, folder.name), folder, problems)
        results.append(found.assign(expected=len(expected)))
    for table, part in pd.concat(results, ignore_index=True).groupby("table") if results else ():
        add_table(page, table, part, settings.get("fixed", {}).get("grid", ["table11", {}])[:2])


def add_table(page: Page, name: str, every: pd.DataFrame, grid: list) -> None:
    """Adds table 1, one of OWN like it, or table 3: a row a model.

    Args:
        every: the results, of :func:`finetunings`, with ``expected`` seeds.
        grid: table 3's settings ``grid`` and ``point``.
    """
    results, of_table3 = chosen(every), name == "table3"
    theirs = pd.DataFrame()
    if name not in OWN:
        theirs = pd.read_csv(CONFIGS / "paper" / f"{name}.csv", index_col="model").rename(columns=title)
    own = [] if of_table3 else sorted({title(task) for task in results["task"]} - {*theirs})
    order = [*theirs, *own]
    averaged = [column for column in theirs if column not in ("MEAN", "MNLI-mm", "EM", "F1")]
    rows = [
        [model, "paper", *(text(row.get(column)) or "-" for column in order)]
        for model, row in theirs.iterrows()
    ]
    for model, part in results.groupby("model", sort=False):
        cells, ours = {}, {}
        for column in (column for column in order if column in part and part[column].notna().any()):
            scored = part[part[column].notna()]
            ours[column] = over_seeds(scored[column], part["expected"].iloc[0], of_table3)
            cells[column] = ours[column].text(_decimals(ours[column].centre) if name == "regressions" else 1)
            cells[column] += _marks(scored, every, grid) if of_table3 else ""
        centres = [ours[column].centre for column in averaged if column in ours]
        if centres:
            some = f" ({len(centres)} of {len(averaged)})" if len(centres) < len(averaged) else ""
            cells["MEAN"] = f"{statistics.fmean(centres):.1f}{some}"
        rows.append([model, "ours", *(cells.get(column, "-") for column in order)])
    names = list(dict.fromkeys(row[0].rstrip("*") for row in rows))
    rows.sort(key=lambda row: names.index(row[0].rstrip("*")))  # ours below the paper's of that name
    target = targets().get(name)
    page.heading(2, target.title if target else OWN[name])
    page.text(target.note if target else "Means ± standard deviations over seeds, on test sets.")
    page.table(pd.DataFrame(rows, columns=["model", "source", *order]))
    page.items([] if of_table3 else _remarks(results))


def _decimals(error: float) -> int:
    """Returns how many decimals show three digits of an error, whatever its unit; at least three."""
    return max(3, 2 - math.floor(math.log10(error))) if error > 0 else 3


def _marks(part: pd.DataFrame, every: pd.DataFrame, grid: list) -> str:
    """Returns what follows a cell of table 3."""
    marks = ("" if part["whole"].all() else "†") + ("‡" if part["from_mnli"].any() else "")
    model, task = part["model"].iloc[0], part["task"].iloc[0]
    points = every["point"][(every["model"] == model) & (every["task"] == task)].nunique()
    asked = len(points_of(task, *grid))
    return marks + (f" ({points} of {asked} points)" if points < asked else "")


def _remarks(results: pd.DataFrame) -> list[str]:
    """Returns what keeps the numbers of a set of molecules from being compared."""
    remarks = []
    for row in results[(results["split"] == "random") & results["task"].isin(KNOWN)].itertuples():
        which = f"{row.model}, {row.task}, seed {row.seed}"
        remarks.append(f"{which}: a random split; the paper's are by scaffold")
    for task, part in results.groupby("task", sort=False):
        if part["test"].nunique() > 1:
            models = ", ".join(part.drop_duplicates("test")["model"])
            remarks.append(f"{task}: not all results are of the same test molecules: {models} differ")
    return remarks


def add_table9(page: Page, folders: dict[str, str], problems: list[str]) -> None:
    """Adds the sets of MoleculeNet as they were prepared (set -> folder), beside the paper's."""
    rows = []
    for paper in pd.read_csv(CONFIGS / "paper" / "table9.csv").itertuples():
        ours = read(Path(folders[paper.set], "molecules.json"), problems) if paper.set in folders else {}
        tasks, sizes, split = "-", "-", "-"
        if ours:
            tasks, split = f"{len(ours['names'])}", ours["split"]["kind"]
            sizes = "/".join(f"{size['molecules']:,}" for size in ours["sizes"].values())
        theirs = f"{paper.train:,}/{paper.valid:,}/{paper.test:,}"
        rows.append([title(paper.set), paper.type, f"{paper.tasks}", tasks, theirs, sizes, split])
    page.heading(2, targets()["table9"].title)
    page.text(targets()["table9"].note)
    pairs = itertools.product(("tasks", "molecules"), ("paper", "ours"))
    heads = pd.Index(["set", "type", *pairs, "split of ours"], tupleize_cols=False)
    page.table(pd.DataFrame(rows, columns=heads))
