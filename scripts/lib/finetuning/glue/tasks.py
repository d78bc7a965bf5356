"""The eight GLUE tasks of table 3 (appendix M): columns of their files, classes, metrics, sizes."""

from dataclasses import dataclass

from fs_plugins.files import naming_errors

FROM_MNLI = ("RTE", "MRPC", "STS-B")  # tasks that RoBERTa's recipe starts from a model fine-tuned on MNLI
SCORES = (0.0, 5.0)  # lowest and highest label of STS-B, the regression
# columns of the files with labels, which have no header
COLA_COLUMNS = ("source", "label", "mark", "sentence")
SPLITS = {"train": "train", "valid": "dev", "test": "test"}
MNLI_SPLITS = {
    "train": "train",
    "valid": "dev_matched",
    "valid1": "dev_mismatched",
    "test": "test_matched",
    "test1": "test_mismatched",
}
# the hub's name of the labels, and those of the classes where they are others or in another order
HUB_LABEL = "label"
HUB_CLASSES = {
    "MNLI": ("entailment", "neutral", "contradiction"),
    "QQP": ("not_duplicate", "duplicate"),
    "SST-2": ("negative", "positive"),
    "CoLA": ("unacceptable", "acceptable"),
    "MRPC": ("not_equivalent", "equivalent"),
}


@dataclass(frozen=True)
class Task:
    """A GLUE task."""

    name: str  # GLUE's spelling
    sentences: tuple[str, ...]  # the columns of its sentences, one or two
    label: str  # the column of its label
    # its classes as in the files, in the order of our class numbers; () for a regression
    labels: tuple[str, ...]
    metrics: tuple[str, ...]  # metrics of its development set; table 3 reports the first
    rows: tuple[int, ...]  # rows of the official files, in the order of ``splits``

    @property
    def splits(self) -> dict[str, str]:
        """Returns our names of the splits -> those of the files."""
        return MNLI_SPLITS if self.name == "MNLI" else SPLITS

    @property
    def official(self) -> dict[str, int]:
        """Returns our names of the splits -> rows of the official files."""
        return dict(zip(self.splits, self.rows, strict=True))

    @property
    def metric(self) -> str:
        return self.metrics[0]

    def title(self, split: str) -> str:
        """Returns the column of a development set in tables, the name of a test set's file for
        gluebenchmark.com."""
        return self.name + ("-mm" if split.endswith("1") else "-m") * (self.name == "MNLI")

    @property
    def regression(self) -> bool:
        return not self.labels

    @property
    def outputs(self) -> int:
        """Returns the number of outputs of the classification head."""
        return len(self.labels) or 1

    @property
    def hub_sentences(self) -> tuple[str, ...]:
        """Returns the columns of its sentences on the hub."""
        return {"MNLI": ("premise", "hypothesis"), "MRPC": _PAIR}.get(self.name, self.sentences)

    @property
    def hub_classes(self) -> dict[str, str]:
        """Returns the names of its classes on the hub, in the order of their numbers there -> those of
        ``labels``."""
        names = HUB_CLASSES.get(self.name, self.labels)
        return {name: name if name in self.labels else self.labels[i] for i, name in enumerate(names)}

    @property
    def valid_splits(self) -> tuple[str, ...]:
        return tuple(split for split in self.splits if split.startswith("valid"))


_PAIR, _STRINGS = ("sentence1", "sentence2"), ("#1 String", "#2 String")
_QUESTIONS, _ANSWER = ("question1", "question2"), ("question", "sentence")
_BINARY, _ENTAILMENT = ("0", "1"), ("entailment", "not_entailment")
_THREE = ("contradiction", "neutral", "entailment")
_ACCURACY, _WITH_F1 = ("accuracy",), ("accuracy", "f1")
_MNLI_ROWS = (392_702, 9_815, 9_832, 9_796, 9_847)

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("MNLI", _PAIR, "gold_label", _THREE, _ACCURACY, _MNLI_ROWS),
        Task("QQP", _QUESTIONS, "is_duplicate", _BINARY, _WITH_F1, (363_846, 40_430, 390_965)),
        Task("QNLI", _ANSWER, "label", _ENTAILMENT, _ACCURACY, (104_743, 5_463, 5_463)),
        Task("SST-2", ("sentence",), "label", _BINARY, _ACCURACY, (67_349, 872, 1_821)),
        Task("CoLA", ("sentence",), "label", _BINARY, ("matthews", "accuracy"), (8_551, 1_043, 1_063)),
        Task("RTE", _PAIR, "label", _ENTAILMENT, _ACCURACY, (2_490, 277, 3_000)),
        Task("MRPC", _STRINGS, "Quality", _BINARY, _WITH_F1, (3_668, 408, 1_725)),
        Task("STS-B", _PAIR, "score", (), ("spearman", "pearson"), (5_749, 1_500, 1_379)),
    )
}


def task_named(name: str) -> Task:
    """Returns the task of that name, in any case."""
    with naming_errors(f"task {name!r}, not one of {', '.join(TASKS)}"):
        return {task.name.lower(): task for task in TASKS.values()}[name.lower()]


def head_of(task: str) -> str:
    """Returns the name of a task's classification head, so that MNLI's is left behind for RTE; and of its
    folder on the Hugging Face hub (nyu-mll/glue)."""
    return task.lower().replace("-", "")
