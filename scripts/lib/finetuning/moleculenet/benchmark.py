"""MoleculeNet (tables 1, 8 and 9), and molecules of one's own: the recipe, and the columns of the report."""

import argparse
from collections.abc import Callable
from pathlib import Path

from fairseq.data import data_utils
from lib.command_line import Flags, UserError, named_path
from lib.finetuning.benchmark import RECIPES, Benchmark, Predictions, repetition
from lib.finetuning.moleculenet.results import SPLITS, write_results
from lib.finetuning.moleculenet.source import KNOWN
from lib.run.checkpoints import Pretrained
from lib.run.launch import BEST, LESS_IS_BETTER, MAXIMIZE, Training

from fs_plugins.files import naming_errors
from fs_plugins.finetuning.moleculenet.data import MOLECULES_FILE, read_folder
from fs_plugins.finetuning.moleculenet.metrics import metrics_of
from fs_plugins.finetuning.moleculenet.task import MoleculePropertyTask
from fs_plugins.finetuning.outputs import PropertyInfo

ROWS, TOKENS = 10_000, 48  # rows of a set, tokens of a molecule, about


class MoleculeNet(Benchmark):
    name, task = "moleculenet", MoleculePropertyTask
    title = "one set of MoleculeNet, or molecules of your own"
    argument = "dataset", "such as bbbp, or your own"
    needs = "moleculenet=SET=FOLDER,..., made by prepare_moleculenet.py"
    table, sets_table, point = "table1", "table9", "table8"
    epoch = ROWS * TOKENS
    untrained, baselines = ("untrained",), {"forest": "baseline_moleculenet.py"}
    titles = {name: known.title for name, known in KNOWN.items()}
    tables = {
        "regressions": "Regressions: RMSE, of several in standard deviations",
        "multiclass": "Several classes: Matthews' correlation in %",
    }

    def add_options(self, add: Callable) -> None:
        add("--scratch", action="store_true", help="the same architecture, untrained")

    def recipe(self, task: str) -> Flags:
        own = RECIPES / self.point / f"{task}.flags"
        recipe = Flags.read(RECIPES / f"{self.point}.flags")
        return recipe | Flags.read(own) if own.is_file() else recipe

    def resolve(self, args: argparse.Namespace, pretrained: Pretrained) -> tuple[Training, int]:
        args.task, data = args.dataset, Path(args.data).resolve()
        about = read_folder(data)
        with naming_errors(data / MOLECULES_FILE):
            info, sizes = PropertyInfo.from_dict(about), about["sizes"]
            if not {"train", "valid"} <= {*sizes}:
                raise UserError(
                    f"{data} is a test set alone: give it to evaluate.py, and here what to train on"
                )
            rows = int(sizes["train"]["molecules"])
        metrics = (*metrics_of(info.kind, len(info.names)), "loss")
        best = Flags.of(f"{BEST} {metrics[0]} {MAXIMIZE if metrics[0] not in LESS_IS_BETTER else ''}")
        training = Training(
            args,
            str(data),
            pretrained.flags | self.recipe(args.task) | repetition(pretrained) | best | args.user,
            settings={"scratch": args.scratch},
            metrics=metrics,
            evaluation=["--split", *(split for split in SPLITS if split in sizes)],
        )
        own = sorted(path.stem for path in (RECIPES / self.point).glob("*.flags"))
        if args.task not in own:
            known = f"is not a set of table 8 ({', '.join(own)})"
            training.note = f"default hyper-parameters, as '{args.task}' {known}"
        return training, rows

    def write(
        self, args: argparse.Namespace, task: MoleculePropertyTask, outputs: Predictions, model: str
    ) -> str:
        more = {"info": task.properties, "logits": not task.properties.regression, "truncated": {}}
        for split in outputs:
            tokens = data_utils.load_indexed_dataset(str(args.data / split), task.dictionary)
            more["truncated"][split] = int((tokens.sizes + 1 > task.positions).sum())  # counts <s>
        rows = {split: rows for split, (_, rows) in outputs.items()}
        return write_results(args.output, args.data, model, rows, args.checkpoint.parent, **more)

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
        table = {"classification": self.table, "regression": "regressions"}.get(content["kind"], "multiclass")
        if task in KNOWN and content.get("split", {}).get("kind") == "random":
            remarks.append("a random split; the paper's are by scaffold")
        if (r2 := test.get("r2")) is not None and r2 <= 0:
            remarks.append(f"no better than the mean of the test labels (R^2 {r2:.2f})")
        score, digits = test.get(content["metric"]), {"digits": None} if regression else {}
        row = {"table": table, "test": test.get("rows_sha256"), "remark": "; ".join(remarks), **digits}
        return row | {self.titles.get(task, task): score if regression or score is None else 100 * score}
