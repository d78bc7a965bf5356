"""Comparisons: only pre-trainings at the best rate and of other seeds count; leads, costs and pictures."""

import math
import statistics

import pytest
from lib.report.comparisons import add_comparison
from lib.report.page import Page
from lib.report.study import Study

from tests.scripts.lib.report.conftest import measured, record, records, trained
from tests.support.builders import write_file


def means(updates=100, **values):
    return measured({name: {"mean": value} for name, value in values.items()}, p=0.387, updates=updates)


@pytest.fixture
def pretrained(add):
    """Adds a pre-training of ``states`` with its joint bits."""

    def added(name, rate, seed, joint, flops=1.0, updates=100, **results):
        results.setdefault("joint", means(joint=joint, marginal=joint + 0.1, gain=0.1))
        return add(name, seed, rate, 4e-3, train=trained(flops=flops, updates=updates), **results)

    return added


@pytest.fixture
def comparison(tmp_path, problems):
    """A report of ``states``."""

    def built(*seeds):
        write_file(tmp_path / "settings.json", {"targets": ["states"], "seeds": seeds})
        page, study = Page("States"), Study(tmp_path, problems)
        add_comparison(page, study, study.targets["states"])
        return page

    return built


def chosen(tmp_path, name, lr, bits):
    scores = {rate: -one for rate, one in bits.items()}
    write_file(tmp_path / f"study/{name}/best.json", {"best": f"{lr:g}", "seed": 1, "scores": scores})


def test_leads_are_over_the_other_seeds_at_equal_updates_and_at_equal_flops(
    tmp_path, pretrained, comparison, problems
):
    """The MLM has 2.0 bits, with 4 times the FLOPs 1.0; so at 2 times, in their logarithm, 1.5."""
    ours = {2: 1.3, 3: 1.5, 4: 1.25}
    pretrained("exlm-p38", "0.004", 1, 0.1)  # chose
    pretrained("exlm-p38", "0.002", 2, 0.1)  # another rate
    for seed, joint in ours.items():
        pretrained("mlm-p38", "best", seed, 2.0 + 0.1 * seed, flops=10.0)
        pretrained("mlm-p38-x4", "best", seed, 1.0 + 0.1 * seed, flops=40.0, updates=400)
        pretrained("exlm-p38", "best", seed, joint, flops=20.0)
    for name in ("mlm-p38", "mlm-p38-x4", "exlm-p38"):
        chosen(tmp_path, name, 4e-3, {"0.002": 3.0, "0.004": 2.0})
    page = comparison(1, 2, 3, 4)
    assert record(page, "ExLM (paper)", "38.7%")["0.002"] == "3.000"
    found = record(page, "38.7%", "ExLM (paper)")
    assert found["learning rate"] == "0.004" and found["FLOPs, times the MLM's"] == "2.00"
    assert found["joint bits per masked token"] == "1.350 ± 0.132" and found["seeds"] == "3"
    error = math.sqrt(statistics.variance(ours.values()) / 3 + 0.01 / 3)
    assert found["lead, same updates"] == f"{2.3 - 1.35:+.3f} ± {error:.3f}*"
    assert found["lead, equal FLOPs"] == f"{1.8 - 1.35:+.3f} ± {error:.3f}*"
    assert record(page, "38.7%", "MLM")["lead, same updates"] == ""
    assert len([one for one in records(page) if "seeds" in one]) == 3
    assert problems == []
    lines = (tmp_path / "states.csv").read_text().splitlines()
    assert lines[0].startswith("name,label,p,k,seed,lr,updates,flops,commit,joint") and len(lines) == 1 + 9
    assert lines[1].startswith("mlm-p38,MLM,0.387,1,2,0.004,100,10,c0ffee,2.2,")


def test_equal_flops_are_of_the_seeds_that_both_have(tmp_path, pretrained, comparison):
    """Seed 3 of the MLM was not trained for longer, so of ExLM seed 2 is compared: 1.5 less 1.25."""
    for seed, joint in {2: 1.25, 3: 1.9}.items():
        pretrained("mlm-p38", "best", seed, 2.0, flops=10.0)
        pretrained("exlm-p38", "best", seed, joint, flops=20.0)
    pretrained("mlm-p38-x4", "best", 2, 1.0, flops=40.0, updates=400)
    for name in ("mlm-p38", "mlm-p38-x4", "exlm-p38"):
        chosen(tmp_path, name, 4e-3, {"0.002": 3.0, "0.004": 2.0})
    found = record(comparison(1, 2, 3), "38.7%", "ExLM (paper)")
    assert found["lead, equal FLOPs"] == "+0.250"
    assert found["lead, same updates"].startswith("+0.425 ± ")


def test_runs_without_a_chosen_rate_count_at_the_sizes(tmp_path, add, comparison):
    first, second = ("mlm-p38", 2.0, 1.0, 10), ("mlm-p38-x2", 1.5, 2.0, 20)
    third = ("exlm-p38", 1.75, 2.5, 10)
    for name, joint, flops, updates in (first, second, third):
        add(name, train=trained(flops=flops, updates=updates), joint=means(joint=joint))
    page = comparison()
    found = record(page, "38.7%", "ExLM (paper)")
    assert found["lead, same updates"] == "+0.250" and found["lead, equal FLOPs"] == ""


def test_pictures_and_the_use_of_states(tmp_path, pretrained, comparison):
    states = [means(u, second_state=0.5, divergence=d)["rows"] for u, d in ((50, 0.2), (100, 0.4))]
    for seed in (2, 3):
        pretrained("exlm-p38", "best", seed, 1.5, states={"rows": sum(states, [])})
    page = comparison()
    found = record(page, "38.7%", "ExLM (paper)")
    assert found["masks with a second state, %"] == "50.0 ± 0.0"
    assert found["divergence of a mask's states, bits"] == "0.40 ± 0.00"
    pictures = {f"pictures/states-{name}-p0.387.png" for name in ("flops", "divergence")}
    assert pictures <= page.pictures.keys()
