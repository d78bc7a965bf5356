"""tests/cuda_simulation/dump_graphs.py: the graphs of a checkpoint in a file."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from fs_plugins.custom_ops.dag_loss import dag_loss

SCRIPT = Path(__file__).resolve().parents[1] / "cuda_simulation" / "dump_graphs.py"


def test_graphs_of_a_checkpoint(pretrained, tmp_path):
    output = tmp_path / "graphs.bin"
    command = [sys.executable, SCRIPT, pretrained, output, "--targets", 7, "--count", 3]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    shape, *lengths = np.split(np.fromfile(output, "<i8", 9), [3, 6])
    (batch, targets, nodes), rest = shape.tolist(), np.fromfile(output, "<f4", offset=72)
    match, links = np.split(rest, [batch * targets * nodes])
    assert (batch, targets) == (3, 7) and all(length.max() <= nodes for length in lengths)
    graph = (match.reshape(batch, targets, nodes), links.reshape(batch, nodes, nodes), *lengths)
    assert torch.isfinite(dag_loss(*(torch.from_numpy(array.copy()) for array in graph))).all()
