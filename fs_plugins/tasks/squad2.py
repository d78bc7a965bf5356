"""SQuAD 2.0 (section 5.2): questions over windows of their contexts, measured by exact match and F1."""

import logging
import os
from dataclasses import dataclass, field

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import meters, metrics
from fairseq.tasks import FairseqTask, register_task
from omegaconf import II, MISSING

from fs_plugins.data.squad import load_split
from fs_plugins.data.squad_answers import AnswerTable, window_answers
from fs_plugins.data.squad_windows import SquadDataset, WindowSizes, make_windows

logger = logging.getLogger(__name__)

# names of :func:`squad_answers.evaluate` -> names in the log
LOGGED = {
    "total": "questions",
    "exact": "em",
    "f1": "f1",
    "best_exact": "em_swept",
    "best_f1": "f1_swept",
    "HasAns_f1": "f1_has_answer",
    "NoAns_f1": "f1_no_answer",
}


@dataclass
class Squad2Config(FairseqDataclass):
    data: str = field(default=MISSING, metadata={"help": "folder made by scripts/prepare_squad.py"})
    window_tokens: int = field(
        default=512, metadata={"help": "longest input: question, window of the context, special symbols"}
    )
    doc_stride: int = field(
        default=128, metadata={"help": "tokens from the start of one window of a context to the next"}
    )
    max_question_tokens: int = field(default=64, metadata={"help": "longer questions are cut"})
    max_answer_tokens: int = field(default=30, metadata={"help": "longest answer that is looked for"})
    null_threshold: float = field(
        default=0.0,
        metadata={"help": "no answer is given where its score is above that of the best answer by more"},
    )
    head_name: str = field(default="span", metadata={"help": "name of the head with the scores of tokens"})
    seed: int = II("common.seed")


@register_task("squad2", dataclass=Squad2Config)
class Squad2Task(FairseqTask):
    """Fine-tuning on SQuAD 2.0 with ``--criterion squad2``.

    In validation, the predictions of all windows of a split, from all workers, are put together and measured:
    ``em`` and ``f1`` at ``--null-threshold``, ``em_swept`` and ``f1_swept`` at the threshold that suits this
    split best, each in percent, so that ``--best-checkpoint-metric f1 --maximize-best-checkpoint-metric``
    keeps the best checkpoint.

    Raises:
        FileNotFoundError: if the data are not there.
        ValueError: if they were made with another dictionary, or windows do not fit.
    """

    cfg: Squad2Config

    def __init__(self, cfg, dictionary: Dictionary):
        super().__init__(cfg)
        self.dictionary = dictionary
        self.head_name = cfg.head_name
        self.answers: list[tuple[str, np.ndarray]] = []  # of validation steps, until they are logged
        self.window_sizes = WindowSizes(
            cfg.window_tokens, cfg.doc_stride, cfg.max_question_tokens, cfg.max_answer_tokens
        )

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        path = os.path.join(cfg.data, "dict.txt")
        if not os.path.isfile(path):
            raise FileNotFoundError(
                f"there is no {path}: scripts/prepare_squad.py makes the data of this task"
            )
        dictionary = Dictionary.load(path)
        dictionary.add_symbol("<mask>")
        return cls(cfg, dictionary)

    def build_model(self, cfg, from_checkpoint=False):
        model = super().build_model(cfg, from_checkpoint)
        if not hasattr(model, "register_token_head"):
            raise ValueError(
                f"{type(model).__name__} has no heads for single tokens: give --arch p_roberta*, mlm_*, "
                "p_roberta_ext_denselink* or exlm_*"
            )
        longest = model.max_positions()
        if self.cfg.window_tokens > longest:
            raise ValueError(
                f"--window-tokens {self.cfg.window_tokens} is more than the model's --max-positions "
                f"{longest}: lower the one, or raise the other if no checkpoint fixes it"
            )
        model.register_token_head(self.cfg.head_name, 2)
        return model

    def load_dataset(self, split, combine=False, **kwargs):
        tokenized = load_split(self.cfg.data, split)
        windows = make_windows(tokenized, self.window_sizes)
        training = split == "train"
        dataset = SquadDataset(
            tokenized,
            windows,
            self.window_sizes,
            self.dictionary,
            split,
            labelled_only=training,
            shuffle=training,
            seed=self.cfg.seed,
        )
        questions = len(tokenized.squad.questions)
        logger.info("%s: %d questions, %d windows", split, questions, len(dataset))
        unknown = len(windows) - len(dataset)
        if unknown:
            logger.warning(
                "%s: %d windows are left out, as their answer is not in the context", split, unknown
            )
        for ids, what in (
            (windows.cut_questions, f"are cut to --max-question-tokens {self.cfg.max_question_tokens}"),
            (windows.outside, "have an answer that is whole in no window: lower --doc-stride"),
        ):
            if ids:
                logger.warning("%s: %d of %d questions %s: %s ...", split, len(ids), questions, what, ids[0])
        self.datasets[split] = dataset
        return dataset

    def max_positions(self):
        """Tokens of a window."""
        return self.cfg.window_tokens

    @property
    def source_dictionary(self):
        return self.dictionary

    @property
    def target_dictionary(self):
        return self.dictionary

    def valid_step(self, sample, model, criterion):
        loss, sample_size, logging_output = super().valid_step(sample, model, criterion)
        start, end = logging_output.pop("span_scores")
        rows = window_answers(start, end, sample["id"], self.cfg.max_answer_tokens)
        self.answers.append((sample["split"], from_all_workers(rows)))
        return loss, sample_size, logging_output

    def reduce_metrics(self, logging_outputs, criterion):
        super().reduce_metrics(logging_outputs, criterion)
        answers, self.answers = self.answers, []
        for split, rows in answers:
            # Named by the split: fairseq also adds up all splits of --valid-subset in one place.
            dataset, key = self.datasets[split], f"_answers_{split}"
            metrics.log_custom(lambda: AnswersMeter(dataset, self.cfg.null_threshold), key, rows)  # noqa: B023
            for name, logged in LOGGED.items():
                metrics.log_derived(logged, lambda meters, key=key, name=name: meters[key].score(name))


def from_all_workers(rows: np.ndarray) -> np.ndarray:
    """The rows of all workers' batches.

    fairseq's own way, logging outputs that are not summed, does not work without a GPU. A worker that has run
    out of batches repeats the first one: its windows come twice, and :class:`AnswerTable` counts them once.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return rows
    parts = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(parts, rows)
    return np.concatenate(parts)


class AnswersMeter(meters.Meter):
    """The answers of a validation so far, and their measures."""

    def __init__(self, dataset: SquadDataset, threshold: float):
        self.dataset, self.threshold = dataset, threshold
        self.reset()

    def reset(self):
        self.table, self.measured = AnswerTable(self.dataset, n_best=1), None

    def update(self, rows: np.ndarray) -> None:
        """Adds rows of :func:`window_answers`."""
        self.table.add(rows)
        self.measured = None

    def score(self, name: str) -> float:
        """A measure by its name in :func:`squad_answers.evaluate`; 0 where there are no such questions."""
        if self.measured is None:
            self.measured = self.table.evaluate(self.threshold)
        return round(self.measured.get(name, 0.0), 2)

    @property
    def smoothed_value(self) -> float:
        return self.table.windows
