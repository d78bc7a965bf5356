"""What the workflow and the report ask of the benchmarks."""

import argparse
from collections.abc import Callable
from pathlib import Path

from lib import moleculenet, squad
from lib.command_line import named_path
from lib.glue import FROM_MNLI, TASKS
from lib.recipes import Point, points_of


class Benchmark:
    """One of GLUE, SQuAD and MoleculeNet."""

    name = ""
    several_gpus = False  # whether it trains faster on several
    needs = ""  # its setting, for messages
    table = ""  # table of its results, the paper's or one of its own
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)  # seeds of fine-tuning
    point = "recipe"  # the name of its hyper-parameters, if there is no grid of them
    has_grid = True  # whether there is one, of table 6 or 11
    untrained: tuple[str, ...] = ()  # models that are not pre-trained
    baselines: dict[str, str] = {}  # other predictors -> the script that trains them
    sets_table = ""  # the paper's, about its data
    reads_smiles = False
    argument = True  # whether finetune_NAME.sh takes a task before CHECKPOINT
    titles: dict[str, str] = {}  # task -> its name in the report
    tables: dict[str, str] = {}  # besides ``table`` -> what each shows
    not_averaged: tuple[str, ...] = ()  # columns of ``table`` that its MEAN leaves out

    def add_settings(self, add: Callable) -> None:
        add(f"--{self.name}")

    def data(self, settings: argparse.Namespace) -> dict[str, str]:
        raise NotImplementedError

    def tasks(self, settings: argparse.Namespace) -> list[str]:
        return list(self.data(settings))

    def parts(self, settings: argparse.Namespace) -> dict[str, str | Path]:
        folders = dict.fromkeys(self.data(settings).values())
        return dict.fromkeys([""], *folders) if folders else {}

    def dictionaries(self, settings: argparse.Namespace) -> list[Path]:
        return [Path(folder, "dict.txt") for folder in self.parts(settings).values()]

    def points(self, task: str, settings: argparse.Namespace) -> list[Point]:
        return points_of(task, settings.grid, settings.point) if self.has_grid else []

    def options(self, settings: argparse.Namespace, model: str, task: str) -> list[str]:
        return []


class Glue(Benchmark):
    name, needs, table = "glue", "glue=FOLDER with a TASK-bin, of prepare_glue.py", "table3"
    not_averaged = ("MNLI-mm",)

    def add_settings(self, add: Callable) -> None:
        super().add_settings(add)
        add("--tasks", choices=TASKS, nargs="+", default=[])

    def data(self, settings: argparse.Namespace) -> dict[str, str]:
        return dict.fromkeys(TASKS, settings.glue) if settings.glue else {}

    def tasks(self, settings: argparse.Namespace) -> list[str]:
        # all tasks of a folder that does not exist yet
        planned = settings.glue and not Path(settings.glue).is_dir()
        prepared = [
            task for task in self.data(settings) if planned or Path(settings.glue, f"{task}-bin").is_dir()
        ]
        return settings.tasks or prepared

    def parts(self, settings: argparse.Namespace) -> dict[str, str | Path]:
        return {path.name: path for path in Path(settings.glue or "none").glob("*-bin")}

    def dictionaries(self, settings: argparse.Namespace) -> list[Path]:
        return [folder / "input0" / "dict.txt" for folder in self.parts(settings).values()]

    def options(self, settings: argparse.Namespace, model: str, task: str) -> list[str]:
        start = settings.init_from.get(model) if task in FROM_MNLI else None
        return ["--drop-checkpoints", *(["--init-from", start] if start else [])]

    def columns(self, content: dict) -> dict:
        task, metrics, rows = TASKS[content["task"]], content["metrics"], content["rows"]
        whole = all(rows[split] == task.official[split] for split in ("train", *task.valid_splits))
        from_mnli = bool(content["manifest"]["inputs"].get("init_from"))
        marks = ("" if whole else "†") + ("‡" if from_mnli else "")
        scores = {task.title(split): metrics[split].get(task.metric) for split in task.valid_splits}
        # a score is missing if --metrics left it out
        scores = {column: 100 * score for column, score in scores.items() if score is not None}
        return {"table": self.table, "marks": marks, **tried_point(content), **scores}


class Squad(Benchmark):
    name, needs, table, several_gpus, argument = "squad", "squad=FOLDER", "table3", True, False
    not_averaged = ("EM", "F1")

    def data(self, settings: argparse.Namespace) -> dict[str, str]:
        return {squad.NAME: settings.squad} if settings.squad else {}

    def columns(self, content: dict) -> dict:
        scores = content["metrics"]["valid"]
        marks = "" if scores.get("total") == squad.QUESTIONS else "†"
        shown = {"EM": scores["exact"], "F1": scores["f1"]}
        return {"table": self.table, "marks": marks, **tried_point(content), **shown}


class MoleculeNet(Benchmark):
    name, needs = "moleculenet", "moleculenet=SET=FOLDER,..., made by prepare_moleculenet.py"
    table, sets_table, point, has_grid, seeds = "table1", "table9", "table8", False, (1, 2, 3)
    reads_smiles = True
    untrained, baselines = ("untrained",), {"forest": "baseline_moleculenet.py"}
    titles = {name: known.title for name, known in moleculenet.KNOWN.items()}
    tables = {"regressions": "Regressions: RMSE, of several in standard deviations"}

    def add_settings(self, add: Callable) -> None:
        add("--moleculenet", type=named_path, nargs="+", default=[])

    def data(self, settings: argparse.Namespace) -> dict[str, str]:
        return settings.moleculenet

    def parts(self, settings: argparse.Namespace) -> dict[str, str | Path]:
        return settings.moleculenet

    def options(self, settings: argparse.Namespace, model: str, task: str) -> list[str]:
        return ["--scratch"] if model in self.untrained else []

    def columns(self, content: dict) -> dict:
        task, test, remarks = content["task"], content["metrics"].get("test", {}), []
        regression = content["kind"] == "regression"
        if task in moleculenet.KNOWN and content.get("split", {}).get("kind") == "random":
            remarks.append("a random split; the paper's are by scaffold")
        if (r2 := test.get("r2")) is not None and r2 <= 0:
            remarks.append(f"no better than the mean of the test labels (R^2 {r2:.2f})")
        score, digits = test.get(content["metric"]), {"digits": None} if regression else {}
        table = "regressions" if regression else self.table
        row = {"table": table, "test": test.get("rows_sha256"), "remark": "; ".join(remarks), **digits}
        return row | {self.titles.get(task, task): score if regression or score is None else 100 * score}


def tried_point(content: dict) -> dict:
    """Returns the columns of a result of one point of a grid."""
    point = Point(**{key: str(value) for key, value in content["manifest"]["settings"]["point"].items()})
    return {"point": point.key, "score": float(content["metrics"]["valid"][content["metric"]])}


BENCHMARKS: dict[str, Benchmark] = {one.name: one for one in (Glue(), MoleculeNet(), Squad())}
TABLES = dict.fromkeys(one.table for one in BENCHMARKS.values())
