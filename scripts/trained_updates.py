"""The updates that a checkpoint of fairseq-train has had, as a number; 0 where it is not there or not whole.

python scripts/trained_updates.py checkpoints/exlm/checkpoint_last.pt
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import fs_plugins  # noqa: F401  (what torch.load may load)


def trained_updates(path: Path) -> int:
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        return checkpoint["optimizer_history"][-1]["num_updates"]
    except Exception:  # fairseq-train says what is wrong with it, or mends it
        return 0


if __name__ == "__main__":
    print(trained_updates(Path(sys.argv[1])))
