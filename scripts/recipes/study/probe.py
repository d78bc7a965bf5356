"""Recovery of masked tokens: one probe for MLM, Repeated MLM, ExLM and its ablations.

    python scripts/experiments/probe.py checkpoint.pt --data data-bin --mask-prob 0.15 --output probe.json

Of each block of the validation split a share of the words is drawn, by a seed and the block's number alone:
every model has to recover the same tokens from the same visible ones. They are replaced by <mask>; in
Repeated MLM all k copies are. A model's prediction of a drawn token is the most probable word under its own
distribution of that token given the visible ones, where it knows how many tokens are missing and where, but
none of them:

* MLM: P at the token's position; Repeated MLM: the mean of P over the token's k copies.
* ExLM: P(y_i = w) = sum over nodes u of P(u is the i-th node of the path) P_u(w), over all paths through the
  graph with as many nodes as there are targets: exact, by the forward-backward algorithm without emissions.
* ExLM w/o transitions: the CTC probability that the token's k states emit w and nothing else; not the blank.

Given out: the share of tokens recovered, and -log2 of the probability of the right word.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
from pathlib import Path

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.data import PrependTokenDataset, TokenBlockDataset, data_utils
from torch import Tensor

import fs_plugins  # noqa: F401  (models, tasks and what fairseq needs on current Python)
from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.data.repeated_tokens import repeat_tokens
from fs_plugins.models.exlm import ExLMModel, StateGraph

SEED = 1
BATCH_TOKENS = 4096


def mask_words(tokens: Tensor, share: float, dictionary, seed: int, block: int) -> Tensor:
    """[T] bool: the words of a block to recover; at least one, never a special symbol."""
    words = np.flatnonzero((tokens >= dictionary.nspecial).numpy())
    count = min(len(words), max(1, round(share * len(words))))
    chosen = np.random.default_rng((seed, block)).choice(words, count, replace=False)
    masked = torch.zeros(len(tokens), dtype=torch.bool)
    masked[torch.from_numpy(chosen)] = True
    return masked


@torch.no_grad()
def token_log_probs(model, tokens: Tensor, masked: Tensor, *, k: int = 1, ctc: bool = False) -> Tensor:
    """Log-probabilities of the vocabulary for each masked token.

    Args:
        model: an MLM, or an ExLM.
        tokens: [B, T] the original tokens, right-padded; masked: [B, T] bool.
        k: copies of each token in Repeated MLM; an ExLM knows its own.
        ctc: for an ExLM without transitions.

    Returns:
        [masked tokens, V] in nats, in the order of ``tokens[masked]``.
    """
    dictionary = model.encoder.dictionary
    visible = tokens.masked_fill(masked, dictionary.index("<mask>"))
    if not isinstance(model, ExLMModel):
        copies = repeat_tokens(masked, k)
        logits, _ = model(repeat_tokens(visible, k), masked_tokens=copies)  # [k * masked tokens, V]
        log_probs = logits.float().log_softmax(-1).unflatten(0, (-1, k))  # copies follow each other
        return log_probs.logsumexp(1) - math.log(k)
    # a target that says where the masks are, not what is behind them
    target = torch.where(masked, dictionary.unk(), dictionary.pad())
    graph, _ = model(visible, target=target, transitions=not ctc)
    ranks = target_ranks(tokens, masked, dictionary)
    rows = [
        (_ctc_tokens if ctc else _dag_tokens)(graph, b, ranks[b, masked[b]], dictionary)
        for b in range(len(tokens))
    ]
    return torch.cat(rows)


def target_ranks(tokens: Tensor, masked: Tensor, dictionary) -> Tensor:
    """[B, T]: which target of its sentence an expanded token is; of no meaning elsewhere."""
    expanded = masked | tokens.eq(dictionary.bos()) | tokens.eq(dictionary.eos())
    return expanded.long().cumsum(1) - 1


def _emissions(graph: StateGraph, b: int, nodes: Tensor | slice) -> Tensor:
    logits = torch.nn.functional.linear(graph.node_states[b, nodes], graph.output_weight, graph.output_bias)
    return logits.float().log_softmax(-1)


def _dag_tokens(graph: StateGraph, b: int, ranks: Tensor, dictionary) -> Tensor:
    """[len(ranks), V]: see the module."""
    layout = graph.layout
    M, L = int(layout.target_lengths[b]), int(layout.node_lengths[b])
    with torch.enable_grad():
        emitted = graph.links.new_zeros((1, M, L), requires_grad=True)  # every node emits every target alike
        lengths = layout.node_lengths[b : b + 1], layout.target_lengths[b : b + 1]
        paths = dag_loss(emitted, graph.links[b : b + 1, :L, :L].detach(), *lengths)
        (visits,) = torch.autograd.grad(paths.sum(), emitted)  # [1, M, L] P(u is the i-th node)
    return (visits[0, ranks] @ _emissions(graph, b, slice(L)).exp()).clamp_min(1e-30).log()


def _ctc_tokens(graph: StateGraph, b: int, ranks: Tensor, dictionary) -> Tensor:
    """[len(ranks), V]: the states of each token emit blanks, a run of the word, blanks."""
    k = graph.layout.node_positions.shape[1] // graph.layout.targets.shape[1]
    own = ranks[:, None] * k + torch.arange(k, device=ranks.device)  # [R, k]
    log_probs = _emissions(graph, b, own.flatten()).unflatten(0, own.shape)  # [R, k, V]
    blank = log_probs[..., dictionary.unk(), None]  # [R, k, 1]
    before = torch.zeros_like(blank[:, 0])
    inside = after = torch.full_like(log_probs[:, 0], -torch.inf)
    for state in range(k):
        word, empty = log_probs[:, state], blank[:, state]
        after = torch.logaddexp(after, inside) + empty
        inside = torch.logaddexp(inside, before) + word
        before = before + empty
    scores = torch.logaddexp(inside, after)
    scores[:, dictionary.unk()] = -torch.inf
    return scores.log_softmax(-1)


def load_blocks(data: Path, split: str, dictionary, tokens_per_sample: int, count: int) -> list[Tensor]:
    """The first blocks of a split, as pre-training makes them: <s> and ``tokens_per_sample`` - 1 tokens."""
    dataset = data_utils.load_indexed_dataset(str(data / split), dictionary)
    if dataset is None:
        raise FileNotFoundError(f"there is no {split} split in {data}")
    blocks = TokenBlockDataset(
        dataset,
        dataset.sizes,
        tokens_per_sample - 1,
        pad=dictionary.pad(),
        eos=dictionary.eos(),
        break_mode="none",
    )
    blocks = PrependTokenDataset(blocks, dictionary.bos())
    return [blocks[i] for i in range(min(count, len(blocks)))]


def probe(
    model,
    blocks: list[Tensor],
    share: float,
    *,
    k: int = 1,
    ctc: bool = False,
    seed: int = SEED,
    device="cpu",
) -> dict:
    """How well a model recovers ``share`` of the words of the blocks: accuracy and bits, see the module."""
    dictionary = model.encoder.dictionary
    blocks = [(i, block) for i, block in enumerate(blocks) if (block >= dictionary.nspecial).any()]
    states = k * (model.encoder.k if isinstance(model, ExLMModel) else 1)
    size = max(1, BATCH_TOKENS // (max(len(block) for _, block in blocks) * states))
    right = bits = total = 0.0
    for start in range(0, len(blocks), size):
        part = blocks[start : start + size]
        masks = [mask_words(block, share, dictionary, seed, i) for i, block in part]
        pad = torch.nn.utils.rnn.pad_sequence
        tokens = pad([block for _, block in part], True, dictionary.pad()).to(device)
        masked = pad(masks, True, False).to(device)
        log_probs = token_log_probs(model, tokens, masked, k=k, ctc=ctc)
        target = tokens[masked]
        right += int((log_probs.argmax(-1) == target).sum())
        bits -= float(log_probs.gather(1, target[:, None]).sum()) / math.log(2)
        total += len(target)
    accuracy = right / total
    return {
        "mask_prob": share,
        "accuracy": accuracy,
        "standard_error": math.sqrt(accuracy * (1 - accuracy) / total),
        "bits": bits / total,
        "tokens": int(total),
    }


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder of fairseq-preprocess")
    parser.add_argument("--split", default="valid", help="default: %(default)s")
    parser.add_argument(
        "--mask-prob", type=float, nargs="+", default=[0.15], help="share of the words to recover"
    )
    parser.add_argument("--max-sentences", type=int, default=1000, help="blocks (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=SEED, help="of the choice of words (default: %(default)s)"
    )
    parser.add_argument("--output", type=Path, help="JSON file to write (default: standard output)")
    args = parser.parse_args(argv)
    for share in args.mask_prob:
        if not 0.0 < share < 1.0:
            parser.error(f"--mask-prob {share:g}: give a share between 0 and 1, such as 0.15")

    logging.disable(logging.INFO)  # fairseq says much when it loads
    models, config, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(args.checkpoint)], arg_overrides={"data": str(args.data)}
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = models[0].to(device).eval()
    blocks = load_blocks(
        args.data, args.split, task.source_dictionary, config.task.tokens_per_sample, args.max_sentences
    )
    k = getattr(config.task, "repeat_times", None) or 1
    ctc = config.criterion._name == "nat_ctc_loss_mlm"
    results = [
        probe(model, blocks, share, k=k, ctc=ctc, seed=args.seed, device=device) for share in args.mask_prob
    ]
    text = json.dumps({"split": args.split, "seed": args.seed, "results": results}, indent=1)
    if args.output is None:
        print(text)
    else:
        args.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
