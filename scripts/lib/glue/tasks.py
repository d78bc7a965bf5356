"""The eight GLUE tasks of table 3 (appendix M): columns of their files, classes, metrics, sizes."""

from __future__ import annotations

from dataclasses import dataclass, field

from lib.command_line import UserError

CLASSIFICATION, REGRESSION = "classification", "regression"
FROM_MNLI = ("RTE", "MRPC", "STS-B")  # what RoBERTa's recipe starts from a model fine-tuned on MNLI
# our name of a split -> the file's; MNLI has two of each
SPLITS = {"train": "train", "valid": "dev", "test": "test"}
MNLI_SPLITS = {
    "train": "train",
    "valid": "dev_matched",
    "valid1": "dev_mismatched",
    "test": "test_matched",
    "test1": "test_mismatched",
}


@dataclass(frozen=True)
class Task:
    """A GLUE task.

    Attributes:
        name: as GLUE writes it.
        sentences: the columns of its sentences, one or two.
        label: the column of its label.
        labels: its classes as in the files, in the order of our class numbers; () for a regression.
        metric: what table 3 reports: ``accuracy``, ``matthews`` or ``spearman``.
        official: rows of the official files by our names of the splits.
        splits: our names of the splits and those of the files.
        score_range: lowest and highest label of a regression.
        submission: by test split, the name of its file in a submission to gluebenchmark.com.
        headless: the files with labels have no header (CoLA).
    """

    name: str
    sentences: tuple[str, ...]
    label: str
    labels: tuple[str, ...]
    metric: str
    official: dict[str, int]
    splits: dict[str, str] = field(default_factory=lambda: dict(SPLITS))
    score_range: tuple[float, float] | None = None
    submission: dict[str, str] = field(default_factory=dict)
    headless: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return CLASSIFICATION if self.labels else REGRESSION

    @property
    def outputs(self) -> int:
        """Outputs of the classification head."""
        return len(self.labels) or 1

    @property
    def valid_splits(self) -> tuple[str, ...]:
        return tuple(split for split in self.splits if split.startswith("valid"))

    def submission_file(self, split: str) -> str:
        return self.submission.get(split, f"{self.name}.tsv")


def _rows(train: int, valid: int, test: int) -> dict[str, int]:
    return {"train": train, "valid": valid, "test": test}


_ENTAILMENT, _BINARY = ("entailment", "not_entailment"), ("0", "1")
_PAIR, _STRINGS = ("sentence1", "sentence2"), ("#1 String", "#2 String")
_QUESTIONS, _ANSWER = ("question1", "question2"), ("question", "sentence")
_COLA = ("source", "label", "mark", "sentence")

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="MNLI",
            sentences=_PAIR,
            label="gold_label",
            labels=("contradiction", "neutral", "entailment"),
            metric="accuracy",
            official={"train": 392_702, "valid": 9_815, "valid1": 9_832, "test": 9_796, "test1": 9_847},
            splits=MNLI_SPLITS,
            submission={"test": "MNLI-m.tsv", "test1": "MNLI-mm.tsv"},
        ),
        Task("QQP", _QUESTIONS, "is_duplicate", _BINARY, "accuracy", _rows(363_846, 40_430, 390_965)),
        Task("QNLI", _ANSWER, "label", _ENTAILMENT, "accuracy", _rows(104_743, 5_463, 5_463)),
        Task("SST-2", ("sentence",), "label", _BINARY, "accuracy", _rows(67_349, 872, 1_821)),
        Task("CoLA", ("sentence",), "label", _BINARY, "matthews", _rows(8_551, 1_043, 1_063), headless=_COLA),
        Task("RTE", _PAIR, "label", _ENTAILMENT, "accuracy", _rows(2_490, 277, 3_000)),
        Task("MRPC", _STRINGS, "Quality", _BINARY, "accuracy", _rows(3_668, 408, 1_725)),
        Task("STS-B", _PAIR, "score", (), "spearman", _rows(5_749, 1_500, 1_379), score_range=(0.0, 5.0)),
    )
}


def task_named(name: str) -> Task:
    """The task of that name, in any case.

    Raises:
        UserError: if there is none.
    """
    for task in TASKS.values():
        if task.name.lower() == name.lower():
            return task
    raise UserError(f"unknown task {name!r}: choose one of {', '.join(TASKS)}")
