"""Fine-tuned models beside the paper's, molecules by validation and test, and the sets of table 9."""

import math
from pathlib import Path

import pandas as pd
from lib.files import CONFIGS, read_json
from lib.moleculenet import KNOWN
from lib.recipes import points_of
from lib.report.page import Page
from lib.report.results import cell
from lib.workflow.plan import SEEDS
from lib.workflow.runs import MOLECULES, SETS, runs, targets

TITLES = {name: known.title for name, known in KNOWN.items()}
NOT_AVERAGED = {"MEAN", "MNLI-mm", "EM", "F1"}
METRICS = {
    "auc": "ROC-AUC, %",
    "rmse": "RMSE, in the unit of {}",
    "scaled_rmse": "RMSE, in standard deviations",
}


def label_of(model: str) -> str:
    return runs()[model].label if model in runs() else model


def chosen(results: pd.DataFrame) -> pd.DataFrame:
    """Returns the results that count: of several points of a task's grid, those of the point that is best
    with the seed that most points have."""
    parts = []
    for _, part in results.groupby(["model", "task"], sort=False):
        if part["point"].nunique() > 1:
            tried = part.groupby("tuning_seed")["point"].nunique().sort_index()
            first = part[part["tuning_seed"] == tried.idxmax()]
            seeds = first["point"].map(part["point"].value_counts())  # ties: the chosen one has more
            part = part[part["point"] == first.loc[(first["choice"] + 1e-9 * seeds).idxmax(), "point"]]
        parts.append(part.sort_values("tuning_seed"))
    return pd.concat(parts)


def add_table(page: Page, name: str, every: pd.DataFrame, settings: dict) -> None:
    """Adds table 1 or 3, a row a model, ours below the paper's of the same name."""
    theirs = pd.read_csv(CONFIGS / "paper" / f"{name}.csv", index_col="model").rename(columns=TITLES)
    results, expected, grid = (
        chosen(every),
        len(settings.get("finetune_seeds") or SEEDS[name]),
        name != MOLECULES,
    )
    scores = results.filter(regex="^score[.]").rename(columns=lambda column: column.removeprefix("score."))
    averaged = [column for column in theirs if column not in NOT_AVERAGED]
    rows = [
        {"model": model, "source": "paper", **row} for model, row in theirs.map("{:.1f}".format).iterrows()
    ]
    for model, part in results.groupby("model", sort=False):
        row, ours = {"model": label_of(model), "source": "ours"}, scores.loc[part.index]
        for column in (column for column in theirs if column in ours and ours[column].notna().any()):
            scored = part[ours[column].notna()]
            marks = "".join(sorted({*"".join(scored["marks"])}))
            row[column] = cell(ours[column], 1, expected, median=grid) + marks
            row[column] += untried(every, model, scored["task"].iloc[0], settings) if grid else ""
        means = ours[ours.columns.intersection(averaged)].agg("median" if grid else "mean").dropna()
        some = f" ({len(means)} of {len(averaged)})" if len(means) < len(averaged) else ""
        rows.append({**row, "MEAN": f"{means.mean():.1f}{some}" if len(means) else "-"})
    table = pd.DataFrame(rows, columns=["model", "source", *theirs]).fillna("-").replace("nan", "-")
    places, _ = pd.factorize(table["model"].str.rstrip("*"))
    page.heading(2, targets()[name].title)
    page.text(targets()[name].note)
    page.table(table.iloc[places.argsort(kind="stable")])


def untried(every: pd.DataFrame, model: str, task: str, settings: dict) -> str:
    """Returns how much of a task's grid was tried, if not all."""
    points = every["point"][(every["model"] == model) & (every["task"] == task)].nunique()
    asked = len(points_of(task, settings.get("grid", "table11"), settings.get("point")))
    return f" ({points} of {asked} points)" if points < asked else ""


def add_molecules(page: Page, results: pd.DataFrame, settings: dict) -> None:
    """Adds validation beside test for each set and model, and what keeps numbers from being compared."""
    expected, rows, remarks = len(settings.get("finetune_seeds") or SEEDS[MOLECULES]), [], []
    for (task, model), part in results.groupby(["task", "model"], sort=False):
        names, metric = part["names"].iloc[0], part["metric"].iloc[0]
        what = names[0] if len(names) == 1 else f"{len(names)} properties"
        row = {"set": TITLES.get(task, task), "property": what, "metric": METRICS[metric].format(what)}
        row |= {"model": label_of(model)}
        for split, head in {"valid": "validation", "test": "test"}.items():
            numbers = part.get(f"{split}.{metric}", pd.Series(dtype=float)) * (100 if metric == "auc" else 1)
            row[head] = cell(numbers, 1 if metric == "auc" else decimals(numbers.mean()), expected) or "-"
        rows.append({**row, "test molecules": f"{part['test.molecules'].iloc[0]:,.0f}"})
    for one in results.to_dict("records"):
        which = f"{one['model']}, {one['task']}, seed {one['tuning_seed']}"
        if one["task"] in KNOWN and one["split"] == "random":
            remarks.append(f"{which}: a random split; the paper's are by scaffold")
        if one.get("test.r2", 1) <= 0:
            remarks.append(f"{which}: no better than the mean of the test labels (R^2 {one['test.r2']:.2f})")
    for task, part in results.groupby("task", sort=False):
        if part["test.rows_sha256"].nunique() > 1:
            models = ", ".join(part.drop_duplicates("test.rows_sha256")["model"])
            remarks.append(f"{task}: not all results are of the same test molecules: {models} differ")
    page.heading(2, "Molecules: validation and test")
    page.text(
        "Choose the model by validation; its test score then says what to expect. ROC-AUC: higher is better."
    )
    page.table(pd.DataFrame(rows))
    page.items(remarks)


def decimals(error: float) -> int:
    """Returns how many decimals show three digits of an error, whatever its unit; at least three."""
    return max(3, 2 - math.floor(math.log10(error))) if error > 0 else 3


def add_sets(page: Page, folders: dict[str, str]) -> None:
    """Adds the sets of MoleculeNet as they were prepared (set -> folder), beside the paper's."""
    rows = []
    for paper in pd.read_csv(CONFIGS / "paper" / f"{SETS}.csv").itertuples():
        ours = read_json(Path(folders.get(paper.set, ""), "molecules.json")) or {}
        row = {"set": TITLES[paper.set], "type": paper.type, "tasks: paper": f"{paper.tasks}"}
        row["tasks: ours"] = f"{len(ours.get('names', ()))}"
        row["molecules: paper"] = f"{paper.train:,}/{paper.valid:,}/{paper.test:,}"
        row["molecules: ours"] = "/".join(f"{size['molecules']:,}" for size in ours.get("sizes", {}).values())
        rows.append({**row, "split of ours": ours.get("split", {}).get("kind", "")})
    page.heading(2, targets()[SETS].title)
    page.text(targets()[SETS].note)
    page.table(pd.DataFrame(rows).replace({"": "-", "0": "-"}))
