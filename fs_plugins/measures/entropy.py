"""Entropy of the predictions for masked tokens, in bits."""

import copy
import math

import numpy as np
import torch
from fairseq import tasks, utils
from omegaconf import open_dict
from torch import Tensor
from tqdm import tqdm

from fs_plugins.checkpoint import Checkpoint
from fs_plugins.criterions.state_use import entropy, is_word, path_posteriors
from fs_plugins.data.datasets import corrupted_tokens
from fs_plugins.data.length_order import batches_by_length
from fs_plugins.measures.masked_samples import BATCH_TOKENS, SEED
from fs_plugins.measures.means import ClusteredMean
from fs_plugins.speed.match_scores import match_scores

NODES = 256  # nodes whose predictions are alive at a time


def corpus_entropy(
    checkpoint: Checkpoint,
    mask_prob: float | None = None,
    *,
    split: str = "valid",
    max_sentences: int | None = None,
    seed: int = SEED,
) -> dict:
    """Entropy of a checkpoint's predictions over a split of its data (appendices E.2 and Q.1, figures 5, 12).

    In bits: of a vanilla MLM over its masked tokens; of a Repeated MLM over tokens whose k copies are all
    masked; of an ExLM over the k nodes of each mask, and weighted by the posterior probability that a node
    emits the token (entropy_posterior); nonfinite is the number of sentences without a finite likelihood,
    which count in the plain mean only, and uniform, log2 V, the most there can be.

    Sentences are masked as in training, but by <mask> only: --leave-unmasked-prob and --random-token-prob
    are set to 0, so that no masked token is visible. <s> and </s> are left out, and of Repeated MLM the
    tokens with a visible copy. Each token counts once; standard errors take the tokens of a sentence as one
    cluster.

    Args:
        checkpoint: of a task ``masked_lm`` or ``repeated_masked_lm``; ``checkpoint.data`` holds the split.
        mask_prob: p; by default that of the training.
        max_sentences: a random choice of so many; by default all.
        seed: of the masks and the choice of sentences.
    """
    task = _masked_task(checkpoint, mask_prob, seed)
    task.load_dataset(split)
    dataset, model, k = task.dataset(split), checkpoint.model, checkpoint.k or checkpoint.copies
    chosen = np.arange(len(dataset))
    if max_sentences is not None and max_sentences < len(dataset):
        chosen = np.random.default_rng(seed).choice(len(dataset), max_sentences, replace=False)
    meters = {name: ClusteredMean() for name in ("entropy", "entropy_posterior")}
    d, nonfinite = checkpoint.dictionary, 0
    most = checkpoint.k or 1  # states of a token
    batches = list(batches_by_length([most * dataset.num_tokens(i) for i in chosen], BATCH_TOKENS))
    for part in tqdm(batches, desc=f"entropy, {split}", unit="batch", disable=None):
        batch = dataset.collater([dataset[i] for i in chosen[part]])
        if checkpoint.device.type == "cuda":
            batch = utils.move_to_cuda(batch, checkpoint.device)
        tokens, target = batch["net_input"]["src_tokens"], batch["target"]
        if checkpoint.k is None:
            wanted = corrupted_tokens(target, k, d.pad()) & is_word(target[:, ::k], d)
            meters["entropy"].add(mlm_entropy(model, tokens, wanted, k), wanted)
            continue
        values, targets, finite = exlm_entropy(model, tokens, target)
        wanted = is_word(targets, d)
        meters["entropy"].add(values.pop("entropy"), wanted)
        if checkpoint.has_transitions:
            nonfinite += int((~finite).sum())
            for name, value in values.items():
                meters[name].add(value, wanted & finite[:, None])
    return {
        "mask_prob": task.cfg.mask_prob,
        **{name: meter.result() for name, meter in meters.items()},
        "nonfinite": nonfinite,
        "uniform": math.log2(len(d)),
    }


def _masked_task(checkpoint: Checkpoint, mask_prob: float | None, seed: int):
    """Returns the task of the checkpoint's training, on ``checkpoint.data``, masking by ``<mask>`` only."""
    cfg = copy.deepcopy(checkpoint.cfg.task)
    with open_dict(cfg):
        cfg.data, cfg.seed = str(checkpoint.data), seed
        cfg.leave_unmasked_prob = cfg.random_token_prob = 0.0
        cfg.mask_prob = cfg.mask_prob if mask_prob is None else mask_prob
    return tasks.setup_task(cfg, from_checkpoint=True)


def entropy_of(logits: Tensor) -> Tensor:
    return entropy(logits.softmax(-1, torch.promote_types(logits.dtype, torch.float32)))


@torch.no_grad()
def mlm_entropy(model, tokens: Tensor, wanted: Tensor, k: int = 1) -> Tensor:
    """Returns the entropy in bits [B, T] of the tokens of a (Repeated) MLM, the mean over their k copies,
    given the input [B, k T] and ``wanted`` [B, T], the tokens whose copies are all masked; elsewhere 0."""
    copies = wanted.repeat_interleave(k, dim=1)
    logits, _ = model(tokens, masked_tokens=copies)
    bits = torch.cat([entropy_of(part) for part in logits.split(NODES)])
    return bits.new_zeros(copies.shape).masked_scatter(copies, bits).unflatten(1, (-1, k)).mean(-1)


@torch.no_grad()
def exlm_entropy(model, tokens: Tensor, target: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Returns ``entropy`` and ``entropy_posterior`` of the M targets of B sentences of an ExLM, [B, M] each;
    the targets [B, M]; and whether each sentence has a finite likelihood [B]. ``target`` [B, T] has the
    original token at masked ones of ``tokens`` [B, T], else pad."""
    graph, _ = model(tokens, target=target)
    layout, k = graph.layout, model.encoder.k
    sentences = (graph.logits(slice(b, b + 1)) for b in range(len(tokens)))
    node_bits = torch.cat([entropy_of(logits) for logits in sentences])  # [B, L]
    posterior, log_probs = path_posteriors(graph, graph.match(layout.targets, match_scores))
    values = {
        "entropy": node_bits.unflatten(1, (-1, k)).mean(-1),
        "entropy_posterior": (posterior * node_bits[:, None]).sum(-1),
    }
    return values, layout.targets, log_probs.isfinite()
