"""The eight GLUE tasks of table 3 (appendix M): columns of their files, classes, metrics, sizes."""

from __future__ import annotations

from dataclasses import dataclass

from lib.command_line import UserError

FROM_MNLI = ("RTE", "MRPC", "STS-B")  # what RoBERTa's recipe starts from a model fine-tuned on MNLI
SCORES = (0.0, 5.0)  # lowest and highest label of STS-B, the regression
COLA_COLUMNS = ("source", "label", "mark", "sentence")  # of the files with labels, which have no header
SPLITS = {"train": "train", "valid": "dev", "test": "test"}
MNLI_SPLITS = {
    "train": "train",
    "valid": "dev_matched",
    "valid1": "dev_mismatched",
    "test": "test_matched",
    "test1": "test_mismatched",
}
MNLI_SUBMISSION = {"test": "MNLI-m.tsv", "test1": "MNLI-mm.tsv"}


@dataclass(frozen=True)
class Task:
    """A GLUE task.

    Attributes:
        name: as GLUE writes it.
        sentences: the columns of its sentences, one or two.
        label: the column of its label.
        labels: its classes as in the files, in the order of our class numbers; () for a regression.
        metric: what table 3 reports: ``accuracy``, ``matthews`` or ``spearman``.
        rows: of the official files, in the order of ``splits``.
    """

    name: str
    sentences: tuple[str, ...]
    label: str
    labels: tuple[str, ...]
    metric: str
    rows: tuple[int, ...]

    @property
    def splits(self) -> dict[str, str]:
        """Our names of the splits -> those of the files."""
        return MNLI_SPLITS if self.name == "MNLI" else SPLITS

    @property
    def official(self) -> dict[str, int]:
        """Our names of the splits -> rows of the official files."""
        return dict(zip(self.splits, self.rows, strict=True))

    @property
    def regression(self) -> bool:
        return not self.labels

    @property
    def outputs(self) -> int:
        """Outputs of the classification head."""
        return len(self.labels) or 1

    @property
    def valid_splits(self) -> tuple[str, ...]:
        return tuple(split for split in self.splits if split.startswith("valid"))

    def submission_file(self, split: str) -> str:
        """The name of a test split's file in a submission to gluebenchmark.com."""
        return MNLI_SUBMISSION[split] if self.name == "MNLI" else f"{self.name}.tsv"


_PAIR, _STRINGS = ("sentence1", "sentence2"), ("#1 String", "#2 String")
_QUESTIONS, _ANSWER = ("question1", "question2"), ("question", "sentence")
_BINARY, _ENTAILMENT = ("0", "1"), ("entailment", "not_entailment")
_THREE = ("contradiction", "neutral", "entailment")
_MNLI_ROWS = (392_702, 9_815, 9_832, 9_796, 9_847)

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("MNLI", _PAIR, "gold_label", _THREE, "accuracy", _MNLI_ROWS),
        Task("QQP", _QUESTIONS, "is_duplicate", _BINARY, "accuracy", (363_846, 40_430, 390_965)),
        Task("QNLI", _ANSWER, "label", _ENTAILMENT, "accuracy", (104_743, 5_463, 5_463)),
        Task("SST-2", ("sentence",), "label", _BINARY, "accuracy", (67_349, 872, 1_821)),
        Task("CoLA", ("sentence",), "label", _BINARY, "matthews", (8_551, 1_043, 1_063)),
        Task("RTE", _PAIR, "label", _ENTAILMENT, "accuracy", (2_490, 277, 3_000)),
        Task("MRPC", _STRINGS, "Quality", _BINARY, "accuracy", (3_668, 408, 1_725)),
        Task("STS-B", _PAIR, "score", (), "spearman", (5_749, 1_500, 1_379)),
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
