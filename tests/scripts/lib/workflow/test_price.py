"""What a target will take, before anything is there."""

from pathlib import Path

import pytest
from lib.files import ROOT
from lib.run import cost
from lib.workflow.plan import missing
from lib.workflow.price import price


def test_the_paper_without_data(asked):
    """Pre-trainings and hours as in docs/experiments.md."""
    nowhere = {name: f"no/{name}" for name in ("data", "smiles", "glue", "squad")}
    settings = asked(size="paper", gpus=4, moleculenet={"bbbp": "no/bbbp"}, **nowhere)
    tuned = {"table3": 3 * (304 + 8 * 4 + 32 + 4), "table1": 9}
    trained = {"table3": ("3 pre-trainings, 1,105", "183.0"), "table1": ("2 pre-trainings, 9", "1.2")}
    for name, (hours, longest) in trained.items():  # 732 and 5 by themselves
        said = (
            f"{name}: {hours} hours of an H100 (the longest: {longest} on 4); {tuned[name]:,} fine-tunings, "
        )
        assert price(settings, name).startswith(said)
    gone = ["no/data/dict.txt", "no/smiles/dict.txt", "no/glue", "no/bbbp", "no/squad"]
    assert missing(settings, "table3") == gone


def test_a_fine_tuning_takes_six_flops_a_parameter_and_token(asked, data):
    """Models that are not there yet have the parameters of the base model; bbbp is trained for 40 epochs."""
    settings = asked(moleculenet={"bbbp": str(data)}, models={"a": str(data)}, finetune_seeds=[1], gpus=1)
    flops = 2 * 6 * 128_255_589 * 10_000 * cost.MOLECULE * 40  # of a and of the untrained
    hours = flops / (989e12 * 0.16) / 3600
    expected = "table1: 0 pre-trainings, 0 hours of an H100 (the longest: 0.0 on 1); "
    expected += f"2 fine-tunings, {hours:,.0f} hours; 3.1 GB"
    assert price(settings, "table1").startswith(expected)
    models = {name: str(ROOT / "pretrained" / "mlm-molecules") for name in ("a", "b")}
    line = price(asked(moleculenet={"mine": str(data)}, models=models, finetune_seeds=[1, 2]), "table1")
    mlm = Path(models["a"], "model.safetensors").stat().st_size / 2  # float16
    size = float(line.split(" GB")[0].rpartition(" ")[2])
    assert size == pytest.approx(12 * 2 * 3 * mlm / 1e9, abs=0.06)  # the untrained is as the first
