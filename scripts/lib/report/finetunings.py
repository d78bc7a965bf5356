"""Tables of benchmarks: fine-tuned models beside the paper's, and the sets of table 9."""

import itertools
import json
import math
import statistics
from pathlib import Path

import pandas as pd
from lib.files import CONFIGS, RESULT
from lib.recipes import points_of
from lib.report.page import Page
from lib.report.study import DAMAGED, read
from lib.report.tables import over_seeds, text
from lib.workflow.benchmarks import BENCHMARKS, TABLES
from lib.workflow.plan import SEEDS
from lib.workflow.runs import targets

# Columns of a result that are not numbers -> what they are if the benchmark does not say
COLUMNS = {"model": "", "path": "", "table": "", "task": "", "seed": 0, "expected": 0}
COLUMNS |= {"point": "", "score": None}  # a grid's
COLUMNS |= {"digits": 1.0, "marks": "", "remark": "", "test": None}  # a hash of the test set
TITLES = {task: title for one in BENCHMARKS.values() for task, title in one.titles.items()}
OWN = {table: title for one in BENCHMARKS.values() for table, title in one.tables.items()}
NOT_AVERAGED = {"MEAN", *(column for one in BENCHMARKS.values() for column in one.not_averaged)}


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
            rows.append({**COLUMNS, **about, **BENCHMARKS[content["benchmark"]].columns(content)})
        except DAMAGED as error:
            problems.append(f"{path} is damaged: {error!r}")
    columns = dict.fromkeys([*COLUMNS, *(key for row in rows for key in row)])
    return pd.DataFrame(rows, columns=list(columns))


def chosen(results: pd.DataFrame) -> pd.DataFrame:
    """Returns the results that count: of several points of a task's grid, those of the point that is best
    with the seed that most points have."""
    parts = []
    for _, part in results.groupby(["model", "task"], sort=False):
        if part["point"].nunique() > 1:
            first = part[part["seed"] == part.groupby("seed")["point"].nunique().sort_index().idxmax()]
            seeds = first["point"].map(part["point"].value_counts())  # ties: the chosen one has more
            part = part[part["point"] == first.loc[(first["score"] + 1e-9 * seeds).idxmax(), "point"]]
        parts.append(part.sort_values("seed"))
    return pd.concat(parts)


def add_tables(page: Page, output: Path, settings: dict, problems: list[str]) -> None:
    """Adds the tables of the benchmarks, as far as a folder of the workflow has results."""
    labels = {run.name: run.label for target in targets().values() for run in target.runs}
    results = []
    for folder in sorted(folder for table in TABLES for folder in output.glob(f"{table}/*")):
        expected = settings.get("finetune_seeds") or SEEDS[folder.parent.name]
        found = finetunings(labels.get(folder.name, folder.name), folder, problems)
        results.append(found.assign(expected=len(expected)))
    for table, part in pd.concat(results, ignore_index=True).groupby("table") if results else ():
        add_table(page, table, part, settings.get("fixed", {}).get("grid", ["table11", {}])[:2])


def add_table(page: Page, name: str, every: pd.DataFrame, grid: list) -> None:
    """Adds a table of the paper or one of our own: a row a model.

    Args:
        every: the results, of :func:`finetunings`, with ``expected`` seeds.
        grid: the settings ``grid`` and ``point``.
    """
    results, theirs, path = chosen(every), pd.DataFrame(), CONFIGS / "paper" / f"{name}.csv"
    if path.is_file():
        theirs = pd.read_csv(path, index_col="model").rename(columns=TITLES)
    own = sorted(results.dropna(axis="columns", how="all").columns.difference([*COLUMNS, *theirs]))
    order, median = [*theirs, *own], (results["point"] != "").any()
    averaged = [column for column in theirs if column not in NOT_AVERAGED]
    rows = [{"model": model, "source": "paper", **row.map(text)} for model, row in theirs.iterrows()]
    for model, part in results.groupby("model", sort=False):
        row, ours = {"model": model, "source": "ours"}, {}
        for column in part.dropna(axis="columns", how="all").columns.intersection(order):
            scored = part[part[column].notna()]
            value = ours[column] = over_seeds(scored[column], part["expected"].iloc[0], median)
            digits = scored["digits"].iloc[0]
            digits = _decimals(value.centre) if pd.isna(digits) else int(digits)
            row[column] = value.text(digits) + _marks(scored, every, grid)
        if centres := [ours[column].centre for column in averaged if column in ours]:
            some = f" ({len(centres)} of {len(averaged)})" if len(centres) < len(averaged) else ""
            row["MEAN"] = f"{statistics.fmean(centres):.1f}{some}"
        rows.append(row)
    table = pd.DataFrame(rows, columns=["model", "source", *order]).fillna("-").replace("", "-")
    places, _ = pd.factorize(table["model"].str.rstrip("*"))  # ours below the paper's of that name
    table = table.iloc[places.argsort(kind="stable")]
    target = targets().get(name)
    page.heading(2, target.title if target else OWN[name])
    page.text(target.note if target else "Means ± standard deviations over seeds, on test sets.")
    page.table(table)
    page.items(_remarks(results))


def _decimals(error: float) -> int:
    """Returns how many decimals show three digits of an error, whatever its unit; at least three."""
    return max(3, 2 - math.floor(math.log10(error))) if error > 0 else 3


def _marks(part: pd.DataFrame, every: pd.DataFrame, grid: list) -> str:
    """Returns what follows a cell: marks of its results, and how much of a grid was tried."""
    marks = "".join(sorted({*"".join(part["marks"])}))
    model, task = part["model"].iloc[0], part["task"].iloc[0]
    points = every["point"][(every["model"] == model) & (every["task"] == task)].nunique()
    asked = len(points_of(task, *grid)) if part["point"].iloc[0] else points
    return marks + (f" ({points} of {asked} points)" if points < asked else "")


def _remarks(results: pd.DataFrame) -> list[str]:
    """Returns what keeps numbers from being compared."""
    remarked = results[results["remark"] != ""].itertuples()
    remarks = [f"{row.model}, {row.task}, seed {row.seed}: {row.remark}" for row in remarked]
    for task, part in results.groupby("task", sort=False):
        if part["test"].nunique() > 1:
            models = ", ".join(part.drop_duplicates("test")["model"])
            remarks.append(f"{task}: not all results are of the same test molecules: {models} differ")
    return remarks


def add_sets(page: Page, name: str, folders: dict[str, str], problems: list[str]) -> None:
    """Adds the sets of MoleculeNet as they were prepared (set -> folder), beside the paper's."""
    rows = []
    for paper in pd.read_csv(CONFIGS / "paper" / f"{name}.csv").itertuples():
        tasks, sizes, split = "-", "-", "-"
        if ours := read(Path(folders.get(paper.set, ""), "molecules.json"), problems):
            tasks, split = f"{len(ours['names'])}", ours["split"]["kind"]
            sizes = "/".join(f"{size['molecules']:,}" for size in ours["sizes"].values())
        theirs = f"{paper.train:,}/{paper.valid:,}/{paper.test:,}"
        rows.append([TITLES[paper.set], paper.type, f"{paper.tasks}", tasks, theirs, sizes, split])
    page.heading(2, targets()[name].title)
    page.text(targets()[name].note)
    pairs = itertools.product(("tasks", "molecules"), ("paper", "ours"))
    heads = pd.Index(["set", "type", *pairs, "split of ours"], tupleize_cols=False)
    page.table(pd.DataFrame(rows, columns=heads))
