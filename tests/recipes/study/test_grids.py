"""Which runs each figure, table and comparison of the study needs."""

from dataclasses import replace

import pytest
from recipes.study.grids import COMPARISONS, EXPERIMENTS, Run, expand

# Figure 4 of the paper, as it is printed.
FIGURE_4 = {
    (1, 0.0225): 2.25,
    (1, 0.15): 15,
    (1, 0.387): 38.7,
    (1, 0.622): 62.2,
    (1, 0.789): 78.9,
    (2, 0.15): 2.25,
    (2, 0.387): 15,
    (2, 0.622): 38.7,
    (2, 0.789): 62.2,
    (4, 0.387): 2.25,
    (4, 0.622): 15,
    (4, 0.789): 38.7,
    (8, 0.622): 2.25,
    (8, 0.789): 15,
}


def test_repeated_mlm_has_the_14_runs_of_figure_4():
    runs = list(expand(["figure4"]))
    assert len(runs) == 14
    assert {(run.k, run.p) for run in runs} == FIGURE_4.keys()
    assert all(100 * run.p**run.k == pytest.approx(FIGURE_4[run.k, run.p], rel=0.02) for run in runs)


def test_shared_runs_stand_once_with_all_their_measures():
    runs = expand(["all"])
    # repeated, ExLM by k and p, ablations, ++
    assert len(runs) == len({run.key for run in runs}) == 14 + 12 + 3 + 1
    vanilla = Run("repeated-mlm", 1, 0.15)
    assert sum(vanilla in experiment.runs for experiment in EXPERIMENTS.values()) == 10
    assert runs[vanilla] == {"entropy", "quality", "quality-mnli"}
    assert runs[Run("exlm-sparse", 4, 0.15)] == {"quality"}


def test_a_key_is_the_run():
    assert Run("exlm-1d-rope", 4, 0.0225, 3).key == "exlm-1d-rope-k4-p0.0225-seed-3"
    assert Run("repeated-mlm", 1, 0.15, 1, 2).key == "repeated-mlm-k1-p0.15-x2-seed-1"
    assert Run("repeated-mlm", 1, 0.15, 1, 1.5).key == "repeated-mlm-k1-p0.15-x1.5-seed-1"
    assert Run("exlm", 4, 0.15, 3, penalty=2.0, lr=5e-5).key == "exlm-k4-p0.15-penalty2-lr5e-05-seed-3"
    everything = Run("exlm", 4, 0.15, 3, schedule=2, penalty=0.5, lr=0.001, shared_layers=0.75)
    assert everything.key == "exlm-k4-p0.15-x2-shared0.75-penalty0.5-lr0.001-seed-3"
    assert Run.of(everything.key) == everything
    for run in expand(["all", *COMPARISONS], seeds=(1, 12)):
        for lr in (0.0, 1e-3, 2.5e-5, 1e-10):
            assert Run.of(replace(run, lr=lr).key) == replace(run, lr=lr)
        assert Run.of(f"{run.name}-seed-1") == run.row
    with pytest.raises(ValueError, match="exlm-k4 is no run of the study"):
        Run.of("exlm-k4")


def test_cost_has_shares_of_the_layers_and_the_mlm_for_longer():
    runs = list(expand(["cost"]))
    assert [(run.model, run.schedule, run.penalty, run.shared_layers) for run in runs] == [
        *(("repeated-mlm", times, 0, 0) for times in (1, 1.5, 2)),
        *(("exlm", 1, penalty, share) for penalty in (0, 2) for share in (0, 0.5, 0.75)),
    ]
    with pytest.raises(ValueError, match="shared_layers = 2: give a share of the layers, 0 to 1"):
        Run("exlm", 4, 0.15, shared_layers=2)


def test_seeds_and_filters():
    runs = expand(["table4"], seeds=(3, 5), only={"k": "4", "p": "0.15"})
    assert [run.key for run in runs] == ["exlm-k4-p0.15-seed-3", "exlm-k4-p0.15-seed-5"]


@pytest.mark.parametrize(
    ("names", "only", "message"),
    [
        (["figure7"], {}, "unknown figure or table 'figure7'"),
        (["all"], {"k": "17"}, "k = 17: give a whole number from 1 to 16"),
        (["all"], {"k": "0"}, "k = 0"),
        (["all"], {"p": "1.5"}, "p = 1.5: give a share between 0 and 1"),
        (
            ["cost"],
            {"shared_layers": "0.25"},
            "leaves no run of cost, which has shared_layers: 0.0, 0.5, 0.75",
        ),
        (["all"], {"k": "four"}, "k is a number"),
        (["all"], {"ratio": "1"}, "a run has model, k, p"),
        (["figure4"], {"k": "3"}, "leaves no run"),
    ],
)
def test_what_cannot_be_expanded(names, only, message):
    with pytest.raises(ValueError, match=message):
        expand(names, only=only)
