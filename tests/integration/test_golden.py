"""Losses of 20 updates against stored ones: what changes the numbers of a training is seen here.

After a change that is meant to, EXLM_RECORD=1 stores those of the tests that run. The numbers are of the
torch of constraints.txt: another one may initialise and shuffle otherwise.
"""

import os
import re

import pandas as pd
import pytest
import torch
from fairseq.logging import meters

from tests.integration import commands
from tests.integration.commands import train, variant

STORED = commands.ROOT / "tests" / "integration" / "golden.csv"
PINNED = re.search(r"^torch==(\S+)", (commands.ROOT / "constraints.txt").read_text(), re.MULTILINE)[1]


@pytest.mark.skipif(torch.__version__.split("+")[0] != PINNED, reason=f"the losses are of torch {PINNED}")
@pytest.mark.parametrize("name", ["mlm", "exlm", "exlm-no-transitions"])
def test_losses_are_the_stored_ones(name, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(meters, "safe_round", lambda number, digits: float(number))  # log 6 digits
    flags = ["--dropout", 0, "--attention-dropout", 0, "--max-update", 20, "--optimizer", "sgd", "--lr", 0.1]
    losses = train(*variant(name, corpus, tmp_path, *flags)).values("loss")
    stored = pd.read_csv(STORED)
    if os.environ.get("EXLM_RECORD"):
        stored.assign(**{name: losses}).to_csv(STORED, index=False)
    assert losses[0] - losses[-1] > 0.5
    assert losses == pytest.approx(stored[name], abs=1e-4)
