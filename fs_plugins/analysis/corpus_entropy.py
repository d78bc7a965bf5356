"""Entropy of a checkpoint's predictions over a split of its data (appendices E.2 and Q.1, figures 5 and 12).

    python -m fs_plugins.analysis.corpus_entropy checkpoint.pt --max-sentences 500 --output entropy.json

In bits: of a vanilla MLM over its masked tokens; of a Repeated MLM over tokens whose k copies are all masked;
of an ExLM over the k nodes of each mask, and weighted by the posterior probability that a node emits the
token.

Sentences are masked by ``<mask>`` only: ``--leave-unmasked-prob`` and ``--random-token-prob`` of the training
are set to 0 here, so that no masked token is visible. ``<s>`` and ``</s>`` are left out, and of Repeated MLM
the tokens with a visible copy. Each token counts once; standard errors take the tokens of a sentence as one
cluster.
"""

import argparse
import copy
import math
from dataclasses import asdict, dataclass

import numpy as np
from fairseq import tasks, utils
from omegaconf import open_dict
from torch import Tensor
from tqdm import tqdm

from fs_plugins.analysis import command_line
from fs_plugins.analysis.checkpoint import Checkpoint, load_checkpoint
from fs_plugins.analysis.entropy import ClusteredMean, Mean, StateEntropy, exlm_entropy, mlm_entropy
from fs_plugins.data.repeated_tokens import corrupted_tokens
from fs_plugins.models.exlm import ExLMModel

TASKS = ("masked_lm", "repeated_masked_lm")


@dataclass(frozen=True)
class EntropyReport:
    """The entropy of a model's predictions, in bits.

    Attributes:
        kind: "mlm", "repeated_mlm" or "exlm".
        k: copies of each token (Repeated MLM) or states of each mask (ExLM), else 1.
        mask_prob: p.
        entropy: of a token, the plain mean over its k copies or nodes (E.1).
        entropy_posterior: ExLM: weighted by the posterior over nodes; None where that does not apply.
        own_share: ExLM: the part of the posterior that lies on the token's own k nodes.
        nonfinite: ExLM: sentences without a finite likelihood, which count in ``entropy`` only.
        uniform: log2 V, the most there can be.
    """

    checkpoint: str
    arch: str
    kind: str
    k: int
    mask_prob: float
    split: str
    seed: int
    entropy: Mean | None
    entropy_posterior: Mean | None
    own_share: Mean | None
    nonfinite: int
    uniform: float

    def to_dict(self) -> dict:
        """For JSON, with what the figures mean."""
        excluded = "<s>, </s>"
        if self.kind == "repeated_mlm":
            excluded += ", tokens with a visible copy"
        return {**asdict(self), "unit": "bits", "excluded": excluded, "masked_by": "<mask> only"}


class EntropyMeter:
    """Adds up the entropy of batches."""

    def __init__(self, checkpoint: Checkpoint, k: int = 1):
        self.model, self.dictionary, self.k = checkpoint.model, checkpoint.dictionary, k
        self.with_links = checkpoint.has_transitions
        self.plain, self.posterior, self.own_share = (ClusteredMean() for _ in range(3))
        self.nonfinite = 0

    def add(self, batch: dict) -> None:
        """A batch as the task gives it."""
        tokens, target = batch["net_input"]["src_tokens"], batch["target"]
        if isinstance(self.model, ExLMModel):
            self._add_states(exlm_entropy(self.model, tokens, target))
            return
        wanted = corrupted_tokens(target, self.k, self.dictionary.pad())
        wanted &= self._is_word(target[:, :: self.k])
        self.plain.add(mlm_entropy(self.model, tokens, target, wanted, self.k), wanted)

    def _add_states(self, states: StateEntropy) -> None:
        wanted = self._is_word(states.targets)
        self.plain.add(states.plain, wanted)
        if not self.with_links:
            return
        wanted &= states.finite[:, None]
        self.nonfinite += int((~states.finite).sum())
        self.posterior.add(states.posterior, wanted)
        self.own_share.add(states.own_share, wanted)

    def _is_word(self, target: Tensor) -> Tensor:
        """Targets that are neither <s>, </s> nor padding."""
        d = self.dictionary
        return (target != d.bos()) & (target != d.eos()) & (target != d.pad())


def measure_entropy(
    checkpoint: Checkpoint,
    *,
    split: str = "valid",
    mask_prob: float | None = None,
    max_sentences: int | None = None,
    batch_size: int = 16,
    seed: int = 1,
    progress: bool = False,
) -> EntropyReport:
    """The entropy of a checkpoint's predictions on a split of its data, see the module.

    Args:
        checkpoint: of a task ``masked_lm`` or ``repeated_masked_lm``; ``checkpoint.data`` holds the split.
        mask_prob: p; by default that of the training.
        max_sentences: a random choice of so many; by default all.
        batch_size: sentences at a time; results do not depend on it.
        seed: of the masks and the choice of sentences.
        progress: show a progress bar.

    Raises:
        FileNotFoundError: if there is no such split.
        ValueError: for another task, p outside (0, 1), sizes below 1, or more states than positions.
    """
    task = _masked_task(checkpoint, mask_prob, seed)
    for name, value in (("batch size", batch_size), ("number of sentences", max_sentences)):
        if value is not None and value < 1:
            raise ValueError(f"the {name} must be at least 1, got {value}")
    task.load_dataset(split)
    k = getattr(task.cfg, "repeat_times", 1)
    meter, dataset = EntropyMeter(checkpoint, k), task.dataset(split)
    batches = _batches(dataset, max_sentences, batch_size, seed)
    for indices in tqdm(batches, desc=f"entropy, {split}", unit="batch", disable=not progress):
        batch = dataset.collater([dataset[i] for i in indices])
        if checkpoint.device.type == "cuda":
            batch = utils.move_to_cuda(batch, checkpoint.device)
        try:
            meter.add(batch)
        except ValueError as error:
            if "--max-positions" not in str(error):
                raise
            raise ValueError(f"{error}; for this model: a lower mask probability") from error
    kind = "exlm" if checkpoint.states else "repeated_mlm" if k > 1 else "mlm"
    return EntropyReport(
        checkpoint=str(checkpoint.path),
        arch=checkpoint.arch,
        kind=kind,
        k=checkpoint.states or k,
        mask_prob=task.cfg.mask_prob,
        split=split,
        seed=seed,
        entropy=meter.plain.result(),
        entropy_posterior=meter.posterior.result(),
        own_share=meter.own_share.result(),
        nonfinite=meter.nonfinite,
        uniform=math.log2(len(checkpoint.dictionary)),
    )


def _masked_task(checkpoint: Checkpoint, mask_prob: float | None, seed: int):
    """The task of the checkpoint's training, on ``checkpoint.data`` and masking by ``<mask>`` only."""
    name = checkpoint.task
    if name not in TASKS:
        raise ValueError(
            f"{checkpoint.path} was trained by --task {name}, which masks nothing: give a checkpoint of "
            f"pre-training ({' or '.join(TASKS)})"
        )
    cfg = copy.deepcopy(checkpoint.cfg.task)
    with open_dict(cfg):
        cfg.data, cfg.seed = str(checkpoint.data), seed
        cfg.leave_unmasked_prob = cfg.random_token_prob = 0.0
        if mask_prob is not None:
            cfg.mask_prob = mask_prob
    if not 0.0 < cfg.mask_prob < 1.0:
        raise ValueError(f"the mask probability must be between 0 and 1, both excluded, got {cfg.mask_prob}")
    return tasks.setup_task(cfg, from_checkpoint=True)


def _batches(dataset, max_sentences: int | None, batch_size: int, seed: int) -> list[np.ndarray]:
    """Indices of each batch, the longest sentences first, so that too little memory shows at once."""
    order = np.asarray(dataset.ordered_indices())[::-1]  # by length
    if max_sentences is not None and max_sentences < len(order):
        chosen = np.random.default_rng(seed).choice(len(order), max_sentences, replace=False)
        order = order[np.isin(order, chosen)]
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def measure(args: argparse.Namespace) -> dict:
    """What the command writes."""
    return measure_entropy(
        load_checkpoint(args.checkpoint, args.data, args.device),
        split=args.split,
        mask_prob=args.mask_prob,
        max_sentences=args.max_sentences,
        batch_size=args.batch_size,
        seed=args.seed,
        progress=True,
    ).to_dict()


def main(argv=None) -> None:
    arguments = command_line.parser(__doc__, samples="sentences, a random choice of the split's", count=None)
    add = arguments.add_argument
    add("--mask-prob", type=float, metavar="P", help="masking probability (default: the training's)")
    add("--batch-size", type=int, default=16, metavar="N", help="sentences at a time (default: %(default)s)")
    command_line.run(arguments, measure, argv)


if __name__ == "__main__":
    main()
