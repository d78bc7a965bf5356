"""What a target will take, before anything is there."""

import pytest
from lib.files import ROOT
from lib.run import cost
from lib.workflow.price import price


def test_the_paper_without_data(asked):
    """Pre-trainings and hours as in docs/experiments.md."""
    nowhere = {name: f"no/{name}" for name in ("data", "smiles", "glue", "squad")}
    settings = asked(size="paper", gpus=1, moleculenet={"bbbp": "no/bbbp"}, **nowhere)
    tuned = {"table3": 3 * (304 + 8 * 4 + 32 + 4), "table1": 9}
    for name, trained in {"table3": "3 pre-trainings, 1,105", "table1": "2 pre-trainings, 9"}.items():
        line = price(settings, name)
        assert line.startswith(f"{name}: {trained} hours of an H100; {tuned[name]:,} fine-tunings, ")
        assert line.endswith("not there yet: no/data, no/smiles, no/glue, no/bbbp, no/squad")


def test_a_fine_tuning_takes_six_flops_a_parameter_and_token(asked, data):
    """Models that are not there yet have the parameters of the base model; bbbp is trained for 40 epochs."""
    settings = asked(moleculenet={"bbbp": str(data)}, models={"a": str(data)}, finetune_seeds=[1], gpus=1)
    flops = 2 * 6 * 128_255_589 * 10_000 * cost.MOLECULE * 40  # of a and of the untrained
    hours = flops / (989e12 * 0.16) / 3600
    expected = f"table1: 0 pre-trainings, 0 hours of an H100; 2 fine-tunings, {hours:,.0f} hours; 3.1 GB"
    assert price(settings, "table1").startswith(expected)
    box = ROOT / "pretrained"
    models = {name: str(box / f"{name}-molecules") for name in ("mlm", "exlm")}
    line = price(asked(moleculenet={"mine": str(data)}, models=models, finetune_seeds=[1, 2]), "table1")
    weights = [(box / f"{name}-molecules/model.safetensors").stat().st_size / 2 for name in models]
    expected = 12 * 2 * (2 * weights[0] + weights[1]) / 1e9  # float16; the untrained one is as the first
    assert float(line.split(" GB")[0].rpartition(" ")[2]) == pytest.approx(expected, abs=0.06)
