"""Fine-tuned models beside the paper's, molecules by validation and test, and the sets of table 9."""

import math
from pathlib import Path

import pandas as pd
from lib.files import CONFIGS, read_json
from lib.moleculenet import KNOWN
from lib.recipes import points_of
from lib.report.page import Page
from lib.report.results import SCORES, cell, column
from lib.workflow.plan import SEEDS
from lib.workflow.runs import MOLECULES, SETS, runs, targets

TITLES = {name: known.title for name, known in KNOWN.items()}
NOT_AVERAGED = {"MEAN", "MNLI-mm", "EM", "F1"}
METRICS = {"auc": "ROC-AUC, % (higher is better)", "rmse": "RMSE in the unit of {} (lower is better)"}
METRICS |= {"scaled_rmse": "RMSE in standard deviations of the training labels (lower is better)"}


def label_of(model: str) -> str:
    return runs()[model].label if model in runs() else model


def best_point(part: pd.DataFrame) -> pd.DataFrame:
    """Returns the results of a task that count: of the point of its grid that is best with the seed that most
    points have."""
    tried = part.groupby("tuning_seed")["point"].nunique().sort_index()
    first = part[part["tuning_seed"] == tried.idxmax()]
    seeds = first["point"].map(part["point"].value_counts())  # ties: the chosen one has more
    ranks = first["choice"].fillna(0) + 1e-9 * seeds
    return part[part["point"] == first.loc[ranks.idxmax(), "point"]]


def add_table(page: Page, name: str, results: pd.DataFrame, settings: dict) -> None:
    """Adds table 1 or 3, a row a model, ours below the paper's of the same name."""
    theirs = pd.read_csv(CONFIGS / "paper" / f"{name}.csv", index_col="model").rename(columns=TITLES)
    expected, of_grid = len(settings.get("finetune_seeds") or SEEDS[name]), name != MOLECULES
    averaged = [title for title in theirs if title not in NOT_AVERAGED]
    rows = [
        {"model": model, "source": "paper", **row} for model, row in theirs.map("{:.1f}".format).iterrows()
    ]
    for model, of_model in results.groupby("model", sort=False):
        row, centres = {"model": label_of(model), "source": "ours"}, {}
        for task, every in of_model.groupby("task", sort=False):
            part = best_point(every) if of_grid else every
            more = "".join(sorted({*"".join(part["marks"])}))
            grid = (settings.get("grid", "table11"), settings.get("max_epoch"))
            tried, asked = every["point"].nunique(), len(points_of(task, *grid)) if of_grid else 0
            more += f" ({tried} of {asked} points)" if tried < asked else ""
            for title, (of, where, factor) in SCORES.items():
                numbers = factor * column(part, where)
                if of == task and numbers.notna().any():
                    row[title] = cell(numbers, 1, expected, median=of_grid) + more
                    centres[title] = numbers.median() if of_grid else numbers.mean()
        if means := [centres[title] for title in averaged if title in centres]:
            some = f" ({len(means)} of {len(averaged)})" if len(means) < len(averaged) else ""
            row["MEAN"] = f"{sum(means) / len(means):.1f}{some}"
        rows.append(row)
    table = pd.DataFrame(rows, columns=["model", "source", *theirs]).fillna("-").replace("nan", "-")
    places, _ = pd.factorize(table["model"].str.rstrip("*"))
    page.heading(2, targets()[name].title)
    page.text(targets()[name].note)
    page.table(table.iloc[places.argsort(kind="stable")])


def add_molecules(page: Page, results: pd.DataFrame, settings: dict) -> None:
    """Adds validation beside test for each set and model, and what keeps numbers from being compared."""
    expected, rows, remarks = len(settings.get("finetune_seeds") or SEEDS[MOLECULES]), [], []
    for (task, model), part in results.groupby(["task", "model"], sort=False):
        names, metric = part["properties"].iloc[0], part["metric"].iloc[0]
        what = names[0] if len(names) == 1 else f"{len(names)} properties"
        row = {"set": TITLES.get(task, task), "property": what, "metric": METRICS[metric].format(what)}
        row |= {"model": label_of(model)}
        for split, head in {"valid": "validation", "test": "test"}.items():
            numbers = column(part, f"{split}.{metric}") * (100 if metric == "auc" else 1)
            row[head] = cell(numbers, 1 if metric == "auc" else decimals(numbers.mean()), expected) or "-"
        row["test labels"] = cell(part["test.labels"][:1], 0) or "-"
        rows.append({**row, "test R^2": cell(column(part, "test.r2"), 2, expected) or "-"})
        for seed in part["tuning_seed"][(part["split.kind"] == "random") & (task in KNOWN)]:
            remarks.append(f"{model}, {task}, seed {seed:g}: a random split; the paper's are by scaffold")
    for task, part in results.groupby("task", sort=False):
        if part["test.rows_sha256"].nunique() > 1:
            models = ", ".join(part.drop_duplicates("test.rows_sha256")["model"])
            remarks.append(f"{task}: not all results are of the same test molecules: {models} differ")
    page.heading(2, "Molecules: validation and test")
    page.text(
        "Choose the model by validation; its test score then says what to expect of it. An R^2 of 0 or less "
        "is no better than the mean label."
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
