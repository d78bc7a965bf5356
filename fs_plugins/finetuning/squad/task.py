"""SQuAD 2.0 (section 5.2): questions over windows of their contexts, measured by exact match and F1."""

import logging
from dataclasses import dataclass, field
from pathlib import Path

from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from omegaconf import II, MISSING

from fs_plugins.data.vocabulary import Vocabulary
from fs_plugins.finetuning.scored import NamedSplit, ScoredTask
from fs_plugins.finetuning.squad.answers import AnswerTable, window_answers
from fs_plugins.finetuning.squad.data import load_split
from fs_plugins.finetuning.squad.windows import SquadDataset, WindowSizes

logger = logging.getLogger(__name__)

HEAD = "span"  # name of the head that scores tokens

# names of :func:`fs_plugins.finetuning.squad.metrics.evaluate` -> names in the log
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
    seed: int = II("common.seed")


@register_task("squad2", dataclass=Squad2Config)
class Squad2Task(ScoredTask):
    """Fine-tuning on SQuAD 2.0 with ``--criterion squad2``.

    Validations log ``em`` and ``f1`` at ``--null-threshold``, ``em_swept`` and ``f1_swept`` at the threshold
    that suits this split best, each in percent, so that ``--best-checkpoint-metric f1
    --maximize-best-checkpoint-metric`` keeps the best checkpoint. Raises ValueError for data of another
    dictionary, or windows that do not fit.
    """

    cfg: Squad2Config
    criterion = "squad2"
    metric = "f1"

    def __init__(self, cfg, dictionary: Dictionary):
        super().__init__(cfg)
        self.dictionary = dictionary
        self.called_with = {"token_head_name": HEAD}
        self.window_sizes = WindowSizes(
            cfg.window_tokens, cfg.doc_stride, cfg.max_question_tokens, cfg.max_answer_tokens
        )

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        return cls(cfg, Vocabulary.read(Path(cfg.data)).dictionary())

    def build_model(self, cfg, from_checkpoint=False):
        model = super().build_model(cfg, from_checkpoint)
        longest = model.max_positions()
        if self.cfg.window_tokens > longest:
            raise ValueError(
                f"--window-tokens {self.cfg.window_tokens} is more than the model's --max-positions "
                f"{longest}: lower the one, or raise the other if no checkpoint fixes it"
            )
        model.register_token_head(HEAD, 2)
        return model

    def load_dataset(self, split, combine=False, **kwargs):
        tokenized = load_split(self.cfg.data, split)
        dataset = SquadDataset(
            tokenized, self.window_sizes, self.dictionary, training=split == "train", seed=self.cfg.seed
        )
        logger.info("%s: questions: %d, windows: %d", split, len(tokenized.squad.questions), len(dataset))
        if unknown := len(dataset.windows) - len(dataset):
            logger.warning("%s: windows left out, as their answer is not in the context: %d", split, unknown)
        self.datasets[split] = NamedSplit(dataset, split)
        return self.datasets[split]

    def max_positions(self):
        """Returns the most tokens of a window."""
        return self.cfg.window_tokens

    def rows(self, sample, outputs):
        return window_answers(outputs, sample["allowed"], self.cfg.max_answer_tokens)

    def answers(self, split, ids, rows) -> AnswerTable:
        return AnswerTable(self.datasets[split].dataset, ids, rows)

    def score(self, split, ids, rows):
        """Returns the official measures, under their official names, in percent."""
        return self.answers(split, ids, rows).evaluate(self.cfg.null_threshold)

    def logged(self, scores):
        return {logged: round(scores.get(name, 0.0), 2) for name, logged in LOGGED.items()}
