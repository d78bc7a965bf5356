"""What a target will take, before anything is there."""

import pytest
from lib.data.glue_tasks import TASKS
from lib.run import cost
from lib.workflow.price import price


def test_the_paper_without_data(asked, data, glue):
    """Counts as in docs/experiments.md; hours add up."""
    given = {"size": "paper", "smiles": str(data), "glue": str(glue), "squad": str(data), "gpus": 1}
    settings = asked(**given, data=str(data), tasks=[*TASKS], moleculenet={"bbbp": str(data)})
    lines = {name: price(settings, name) for name in ("study", "table3", "table1", "reproduce")}
    for name, count in {"study": 30, "table1": 2, "reproduce": 35}.items():
        assert lines[name].startswith(f"{name}: {count} pre-trainings, ")
    for name, count in {"table1": 9, "table3": 3 * (304 + 8 * 4 + 32 + 4)}.items():
        assert f" {count:,} fine-tunings, " in lines[name]
    nowhere = asked(**{**given, "glue": "no/glue", "squad": "no/squad"}, data=str(data))
    assert price(nowhere, "table3") == lines["table3"] + "; not there yet: no/glue, no/squad"
    hours = [int(line.split(", ")[1].split()[0].replace(",", "")) for line in lines.values()]
    assert sum(hours[:3]) == pytest.approx(hours[3], abs=2)


def test_a_fine_tuning_takes_six_flops_a_parameter_and_token(asked, data):
    """Given models have the parameters of the base model; bbbp is trained for 40 epochs."""
    settings = asked(moleculenet={"bbbp": str(data)}, models={"a": str(data)}, finetune_seeds=[1], gpus=1)
    flops = 2 * 6 * 128_255_589 * 10_000 * cost.MOLECULE * 40  # of a and of the untrained
    hours = flops / (989e12 * 0.16) / 3600
    expected = f"table1: 0 pre-trainings, 0 hours of an H100; 2 fine-tunings, {hours:,.0f} hours; 3 GB"
    assert price(settings, "table1").startswith(expected)
