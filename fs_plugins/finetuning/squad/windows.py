"""Questions over sliding windows of their contexts, laid out as RoBERTa does pairs.

<s>  q_1 ... q_n  </s>  </s>  c_b ... c_{e-1}  </s>
 0   1   ... n    n+1   n+2   n+3 ... n+2+e-b
"""

from dataclasses import dataclass

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, data_utils
from torch.nn.utils.rnn import pad_sequence

from fs_plugins.finetuning.squad.data import TokenizedSquad

SPECIALS = 4  # <s>, </s> </s>, </s>
NO_LABEL = -1


@dataclass(frozen=True)
class WindowSizes:
    """In tokens; ``window`` counts question and special symbols."""

    window: int = 512  # longest input
    stride: int = 128  # distance between the starts of two windows
    question: int = 64  # longer questions are cut
    answer: int = 30  # longest answer that is looked for

    def __post_init__(self):
        if min(self.window, self.stride, self.question, self.answer) < 1:  # a stride of 0 would never end
            raise ValueError(f"at least 1 token each: {self}")


@dataclass
class Windows:
    """The W windows of a split, in the order of its questions."""

    question: np.ndarray  # [W] index of each window's question
    # begin, end: [W] its tokens of the context
    begin: np.ndarray
    end: np.ndarray
    # [W, 2] index in the input of the answer's first and last token; 0, the place of ``<s>``, where the
    # window does not hold the answer; -1 where it is unknown, as the answer is not in the context
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.question)


def answer_tokens(offsets: np.ndarray, text: str, start: int) -> tuple[int, int] | None:
    """Returns the first and last of the tokens that hold a character of the answer, its white space at the
    edges aside; None if there is none."""
    start += len(text) - len(text.lstrip())
    end = start + len(text.strip())
    inside = np.flatnonzero((offsets[:, 0] < end) & (offsets[:, 1] > start))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def make_windows(split: TokenizedSquad, sizes: WindowSizes) -> Windows:
    """Returns windows over the context of each question.

    The label is the first gold answer, as in BERT. A window which holds only a part of it holds no answer.
    Windows advance by ``stride``, or by their own size where that is smaller, so that no token is left out.
    Raises ValueError if a question leaves less room for its context than the longest answer takes.
    """
    rows, labels = [], []
    for i, question in enumerate(split.squad.questions):
        n = min(len(split.question_tokens[i]), sizes.question)
        room = sizes.window - n - SPECIALS
        if room < sizes.answer:
            raise ValueError(
                f"question {question.id} of {n} tokens leaves {max(room, 0)} of the {sizes.window} tokens of "
                f"a window for its context, fewer than the {sizes.answer} of the longest answer: raise "
                "--window-tokens, or lower --max-question-tokens or --max-answer-tokens"
            )
        span = None
        if question.answers and question.answers[0].start >= 0:
            answer = question.answers[0]
            span = answer_tokens(split.context_offsets[question.context], answer.text, answer.start)
        unknown = bool(question.answers) and span is None
        total, step = len(split.context_tokens[question.context]), min(sizes.stride, room)
        for begin in range(0, max(total - room, 0) + step, step):
            end = min(begin + room, total)
            label = (NO_LABEL, NO_LABEL) if unknown else (0, 0)
            if span is not None and begin <= span[0] and span[1] < end:
                label = tuple(n + 3 + token - begin for token in span)
            rows.append((i, begin, end))
            labels.append(label)
    question, begin, end = np.array(rows, dtype=np.int64).T
    return Windows(question, begin, end, np.array(labels, dtype=np.int64))


class SquadDataset(FairseqDataset):
    """The windows of a split as batches, ordered by length; in ``training`` those without a label are left
    out, and the others mixed, in groups of nearly the same length, by ``seed``."""

    def __init__(
        self,
        split: TokenizedSquad,
        sizes: WindowSizes,
        dictionary: Dictionary,
        training: bool = False,
        seed: int = 1,
    ):
        self.split, self.dictionary, self.training, self.seed = split, dictionary, training, seed
        self.windows = windows = make_windows(split, sizes)
        lengths = np.array(list(map(len, split.question_tokens)))[windows.question].clip(max=sizes.question)
        self.question_lengths = lengths
        labelled = windows.labels[:, 0] != NO_LABEL
        self.kept = np.flatnonzero(labelled) if training else np.arange(len(windows))
        self.sizes = (lengths + windows.end - windows.begin + SPECIALS)[self.kept]

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, index: int) -> dict:
        """Returns the window's ``id``, its ``tokens`` [T], whether each is ``allowed`` [T], and its ``label``
        [2]."""
        w = int(self.kept[index])
        windows, split, symbols = self.windows, self.split, self.dictionary
        context = split.squad.questions[windows.question[w]].context
        chosen = slice(windows.begin[w], windows.end[w])
        n = self.question_lengths[w]
        bos, eos = [symbols.bos()], [symbols.eos()]
        question = split.question_tokens[windows.question[w]][:n]
        window = split.context_tokens[context][chosen]
        offsets = split.context_offsets[context][chosen]
        allowed = np.zeros(self.sizes[index], dtype=bool)
        allowed[0] = True
        allowed[n + 3 : -1] = offsets[:, 1] > offsets[:, 0]  # white space alone is no answer
        tokens = np.concatenate([bos, question, eos, eos, window, eos]).astype(np.int64)
        return {
            "id": w,
            "tokens": torch.from_numpy(tokens),
            "allowed": torch.from_numpy(allowed),
            "label": torch.from_numpy(windows.labels[w]),
        }

    def collater(self, samples: list[dict]) -> dict:
        """Returns B windows as a batch: ``id`` [B]; ``net_input.src_tokens`` [B, T], padded on the right;
        ``allowed`` [B, T] bool; ``target`` [B, 2]."""
        if not samples:
            return {}
        tokens = [sample["tokens"] for sample in samples]
        lengths = torch.tensor([len(row) for row in tokens])
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "net_input": {
                "src_tokens": data_utils.collate_tokens(tokens, self.dictionary.pad()),
                "src_lengths": lengths,
            },
            "allowed": pad_sequence([sample["allowed"] for sample in samples], batch_first=True),
            "target": torch.stack([sample["label"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()),
        }

    def num_tokens(self, index: int) -> int:
        return int(self.sizes[index])

    size = num_tokens

    def ordered_indices(self) -> np.ndarray:
        """Returns an order in which windows of a batch are nearly of one length, which saves padding."""
        if not self.training:
            return np.argsort(self.sizes, kind="stable")
        mixed = np.random.default_rng(self.seed).permutation(len(self))
        return mixed[np.argsort(self.sizes[mixed] // 32, kind="stable")]

    def character_span(self, window: int, first: int, last: int) -> tuple[int, int]:
        """Returns the characters of the context from token ``first`` to ``last`` of a window's input."""
        windows = self.windows
        offsets = self.split.context_offsets[self.split.squad.questions[windows.question[window]].context]
        shift = int(windows.begin[window]) - int(self.question_lengths[window]) - 3
        return int(offsets[first + shift, 0]), int(offsets[last + shift, 1])
