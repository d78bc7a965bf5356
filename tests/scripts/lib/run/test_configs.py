"""configs/ and the grids of GLUE against the paper's tables 5 to 8, 10 and 11, copied by hand."""

import argparse
from pathlib import Path

import pandas as pd
import pytest
from fairseq.models import ARCH_CONFIG_REGISTRY
from lib.command_line import Flags
from lib.files import CONFIGS
from lib.glue import TASKS
from lib.recipes import Point, points_of

from fs_plugins import models  # noqa: F401  (registers the architectures)


def cells(name):
    """(name of its row, of its column, text) of each cell; of pre-training tables 5, 10 (base, large) and 7;
    of MoleculeNet table 8."""
    path = Path(__file__).with_name(f"paper_{name}.csv")
    table = pd.read_csv(path, index_col=0, dtype=str, keep_default_na=False)
    return [(*place, text) for place, text in table.stack().items()]


@pytest.mark.parametrize(("flag", "file", "value"), cells("pretraining"))
def test_pretraining(flag, file, value):
    flags, args = Flags.read(CONFIGS / "pretrain" / file), argparse.Namespace()
    ARCH_CONFIG_REGISTRY["exlm_smiles" if "smiles" in file else "exlm_base"](args)
    found = flags.value(flag) or getattr(args, flag[2:].replace("-", "_"), None)
    assert found is None if value == "" else float(found) == float(value)


@pytest.mark.parametrize(("name", "flag", "value"), cells("moleculenet"))
def test_moleculenet(name, flag, value):
    assert float(Flags.read(CONFIGS / "finetune" / "table8" / f"{name}.flags").value(flag)) == float(value)


LARGE = ("MNLI", "QNLI", "QQP", "SST-2")


@pytest.mark.parametrize("name", [*TASKS, "squad2"])
def test_table_11(name):
    points = points_of(name)
    if name in LARGE:
        rates, batches, epochs, warmups = (1e-5, 2e-5, 3e-5, 4e-5), (32,), (2, 3, 5), (0.06,)
    else:
        rates, batches, epochs, warmups = (2e-5, 3e-5, 4e-5, 5e-5), (16, 32), (2, 3, 5, 10), (0.06, 0.1)
        epochs = (2, 3) if name == "squad2" else epochs
    expected = {(r, b, e, w) for r in rates for b in batches for e in epochs for w in warmups}
    found = [(float(p.lr), int(p.batch), int(p.epochs), float(p.warmup)) for p in points]
    assert len(found) == len(set(found)) and set(found) == expected


def test_points_by_hand():
    task = "RTE"
    assert points_of(task, "table6") == [Point("5e-5", "32", "3", "0.06")]
    assert points_of(task, "table6", 7) == [Point("5e-5", "32", "7", "0.06")]
    assert len(points_of(task, epochs=7)) == len(points_of(task)) / 4  # and the rest of the grid
