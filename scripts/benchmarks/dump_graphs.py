"""Writes graphs of a trained ExLM to a file for ``bench_dag_loss.py --graphs``.

    python scripts/benchmarks/dump_graphs.py checkpoints/exlm/checkpoint_last.pt graphs.bin --targets 21

Each graph is of one sample: the validation split's tokens in their order, in pieces of `--tokens`, of which
so many are masked that there are `--targets` targets. The file holds B, M, L, the lengths of nodes and of
targets (int64), match [B, M, L] and links [B, L, L] (float32).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from fairseq.data import data_utils
from torch import Tensor

from fs_plugins.custom_ops.match_scores import match_scores
from fs_plugins.models.checkpoint import Checkpoint, load_checkpoint


def samples(checkpoint: Checkpoint, folder: Path, count: int, tokens: int, masked: int) -> tuple[Tensor, ...]:
    """(input, target) [count, tokens] of the validation split, `masked` tokens of each sample masked."""
    dictionary = checkpoint.dictionary
    dataset = data_utils.load_indexed_dataset(str(folder / "valid"), dictionary)
    stream = torch.cat([dataset[i].long() for i in range(min(len(dataset), count * tokens))])
    stream = stream[stream >= dictionary.nspecial]
    if len(stream) < count * (tokens - 2):
        raise SystemExit(
            f"{folder}: {len(stream)} tokens, and {count} samples of {tokens} need {count * (tokens - 2)}"
        )
    inputs = torch.full((count, tokens), dictionary.eos())
    inputs[:, 0] = dictionary.bos()
    inputs[:, 1:-1] = stream[: count * (tokens - 2)].view(count, tokens - 2)
    target = torch.full_like(inputs, dictionary.pad())
    generator = torch.Generator().manual_seed(1)
    for b in range(count):
        at = 1 + torch.randperm(tokens - 2, generator=generator)[:masked]
        target[b, at] = inputs[b, at]
        inputs[b, at] = dictionary.index("<mask>")
    return inputs, target


@torch.no_grad()
def graphs_of(checkpoint: Checkpoint, inputs: Tensor, target: Tensor) -> tuple[Tensor, ...]:
    """Lengths of nodes and targets [B], match [B, M, L], links [B, L, L]."""
    graph, _ = checkpoint.model(inputs, target=target)
    layout = graph.layout
    match = match_scores(graph.node_states, graph.output_weight, graph.output_bias, layout.targets)
    return layout.node_lengths, layout.target_lengths, match, graph.links


def sharpness(links: Tensor) -> str:
    """What the existing edges' log-probabilities are like; links [L, L]."""
    edges = links[torch.ones_like(links, dtype=torch.bool).triu(1) & (links > -math.inf)]
    below = (edges < -80).float().mean()
    return f"median {edges.median():.0f} nats, least {edges.min():.0f}, {below:.0%} below -80"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("checkpoint", type=Path)
    add("output", type=Path)
    add("--data", type=Path, help="a folder made for the training (default: the training's)")
    add("--targets", type=int, default=21, help="targets of each graph, <s> and </s> among them")
    add("--tokens", type=int, help="of a sample (default: those of 15%% masked tokens)")
    add(
        "--sharpen",
        type=float,
        default=1.0,
        help="a factor on the transitions' logits, as of longer training",
    )
    add("--count", type=int, default=1, help="graphs (default: %(default)s)")
    args = parser.parse_args()
    tokens = args.tokens or round((args.targets - 2) / 0.15) + 2
    checkpoint = load_checkpoint(args.checkpoint, args.data, "cpu")
    inputs, target = samples(checkpoint, checkpoint.data, args.count, tokens, args.targets - 2)
    nodes, targets, match, links = graphs_of(checkpoint, inputs, target)
    if args.sharpen != 1.0:
        links = (args.sharpen * links).log_softmax(-1).nan_to_num(nan=-math.inf)
    with args.output.open("wb") as file:
        for array in (torch.tensor(match.shape), nodes, targets):
            file.write(np.ascontiguousarray(array, dtype="<i8").tobytes())
        for array in (match, links):
            file.write(np.ascontiguousarray(array, dtype="<f4").tobytes())
    for b in range(len(links)):
        print(f"{int(targets[b])} targets, {int(nodes[b])} nodes; edges: {sharpness(links[b])}")


if __name__ == "__main__":
    main()
