"""Checks a checkpoint and a data folder against each other, and says what fairseq-train needs of both.

    python -m moleculenet.plan CHECKPOINT DATA

prints one line: the number of training molecules, "auc" or "rmse", and the flags of the model.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (str(ROOT), str(ROOT / "scripts")):
    if folder not in sys.path:
        sys.path.insert(0, folder)

from fs_plugins.data.property_info import PropertyInfo, read_folder  # noqa: E402
from moleculenet import checkpoints, writing  # noqa: E402
from moleculenet.reading import InputError  # noqa: E402


def plan(checkpoint: Path, data: Path) -> tuple[int, str, list[str], list[str]]:
    """Training molecules, the metric, the model's flags, and warnings.

    Raises:
        InputError: if one of them cannot be used, or they don't fit each other.
    """
    try:
        folder = read_folder(data)
        info = PropertyInfo.from_dict(folder)
    except (FileNotFoundError, ValueError) as error:
        raise InputError(str(error)) from error
    state, cfg = checkpoints.read_state(checkpoint)
    compared = checkpoints.check_dictionary(checkpoint, state, cfg, writing.read_dictionary(data))
    warnings = []
    if compared == "size":
        warnings.append(
            "the dictionary of the pre-training is not where the checkpoint says: only its size was compared"
        )
    rows = folder["sizes"]["train"]["molecules"]
    return rows, "rmse" if info.regression else "auc", checkpoints.model_flags(cfg), warnings


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit("error: give a checkpoint and a data folder")
    try:
        rows, metric, flags, warnings = plan(*map(Path, sys.argv[1:]))
    except InputError as error:
        raise SystemExit(f"error: {error}") from error
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(rows, metric, shlex.join(flags))


if __name__ == "__main__":
    main()
