"""dump_graphs.py: the graphs of a checkpoint in a file."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from fs_plugins.custom_ops.dag_loss import dag_loss

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "benchmarks" / "dump_graphs.py"


def test_graphs_of_a_checkpoint(pretrained, tmp_path):
    output = tmp_path / "graphs.bin"
    command = [sys.executable, SCRIPT, pretrained, output, "--targets", 7, "--count", 3]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    shape, *lengths = np.split(np.fromfile(output, "<i8", 9), [3, 6])
    (batch, targets, nodes), rest = shape.tolist(), np.fromfile(output, "<f4", offset=72)
    match, links = np.split(rest, [batch * targets * nodes])
    assert (batch, targets) == (3, 7) and all(length.max() <= nodes for length in lengths)
    graph = (match.reshape(batch, targets, nodes), links.reshape(batch, nodes, nodes), *lengths)
    graph = [torch.from_numpy(array.copy()) for array in graph]
    assert torch.isfinite(dag_loss(*graph)).all()

    benchmark = runpy.run_path(str(ROOT / "scripts" / "benchmarks" / "bench_dag_loss.py"))
    repeated = benchmark["graphs_of_file"](output, 5)  # the three, and the first two again
    assert all(torch.equal(part, array[[0, 1, 2, 0, 1]]) for part, array in zip(repeated, graph, strict=True))
    match, links, *_ = random = benchmark["with_random_scores"](repeated)
    assert torch.equal(links.isfinite(), repeated[1].isfinite()) and not torch.equal(match, repeated[0])
    assert set(links.exp().sum(-1).round(decimals=4).unique().tolist()) == {0.0, 1.0}
    assert torch.isfinite(dag_loss(*random)).all()
