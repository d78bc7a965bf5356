"""The results that each target needs."""

import json
from pathlib import Path

import pytest
from lib.command_line import UserError
from lib.study import outputs
from lib.study.runs import experiments
from lib.study.settings import Settings

OUT = Path("out")


def names(paths) -> list[str]:
    return [str(path.relative_to(OUT)) for path in paths]


def test_the_quality_of_a_run_is_the_probe_or_fine_tuning():
    run, place = Settings(OUT).runs["exlm-k4-p0.15"], OUT / "study" / "exlm-k4-p0.15/lr-default/seed-1"
    found = outputs.run_files(Settings(OUT), run, {"quality", "entropy"})
    assert found == [place / "train.json", place / "entropy.json", place / "probe.json"]
    fine_tuned = Settings(OUT, glue=Path("glue"), finetune_seeds=(1, 2))
    found = outputs.run_files(fine_tuned, run, {"quality-mnli"})
    assert found == [place / "train.json", *(place / f"glue/MNLI/seed-{s}/result.json" for s in (1, 2))]
    assert len(outputs.run_files(fine_tuned, run, {"quality-mnli", "quality"})) == 1 + 4 * 2


def test_study():
    papers = [name for name in experiments() if name.startswith(("figure", "table"))]
    assert outputs.study_targets(Settings(OUT), ["study"]) == papers and len(papers) == 10
    assert outputs.study_targets(Settings(OUT), ["table4", "figure3", "table1"]) == ["figure3", "table4"]
    assert len([p for p in outputs.study_files(Settings(OUT), "study") if p.name == "train.json"]) == 30
    chosen = Settings(OUT, only={"k": "4", "p": "0.15"}, seeds=(1, 2))
    assert names(outputs.study_files(chosen, "figure12")) == [
        f"study/exlm-k4-p0.15/lr-default/seed-{seed}/{kind}.json"
        for seed in (1, 2)
        for kind in ("train", "entropy")
    ]
    with pytest.raises(ValueError, match="only=size=1: a run has name, model, k, p"):
        outputs.study_files(Settings(OUT, only={"size": "1"}), "figure12")


def test_learning_rates_are_chosen_by_the_first_seed_and_reported_on_the_others(tmp_path):
    settings = Settings(OUT, rates=(1e-3, 2e-3), seeds=(1, 2, 5), only={"p": "0.15", "k": "4"})
    assert outputs.study_files(settings, "graphs") == []
    rows = outputs.rows_to_tune(settings, "graphs")
    assert [row.name for row in rows][:2] == ["exlm-p15", "exlm-local-p15"]
    assert names(outputs.rate_files(settings, "exlm-local-p15")) == [
        f"study/exlm-local-p15/lr-{lr}/seed-1/joint.json" for lr in ("0.001", "0.002")
    ]
    assert len(outputs.rate_files(settings, "exlm-p15")) == 3  # has rates of its own
    assert names(outputs.rate_files(settings, "exlm-k4-p0.15"))[0].endswith("seed-1/probe.json")
    best = tmp_path / "best.json"
    best.write_text(json.dumps({"lr": 0.002}))
    row, measures = list(rows.items())[1]
    assert names(outputs.files_at_best_rate(settings, row, measures, best)) == [
        f"study/exlm-local-p15/lr-0.002/seed-{seed}/{name}.json"
        for seed in (2, 5)
        for name in ("train", "probe", "curve", "joint", "states")
    ]
    single = Settings(OUT)  # a single seed cannot choose and be reported
    assert outputs.rows_to_tune(single, "graphs") == {} and len(outputs.study_files(single, "graphs")) > 6
    assert outputs.rows_to_tune(settings, "figure4") == {}  # has no such run, and its own error says so
    with pytest.raises(ValueError, match="leaves no run"):
        outputs.study_files(settings, "figure4")


def test_what_is_missing_after_a_choice(tmp_path):
    settings = Settings(tmp_path, rates=(1e-3,), seeds=(1, 2), only={"name": "exlm-local-p15"})
    best = tmp_path / "rates" / "exlm-local-p15.json"
    folder = tmp_path / "study/exlm-local-p15/lr-0.001/seed-2"
    assert outputs.missing(settings, ["graphs"]) == [best] and outputs.missing(settings, ["table1"]) == []
    best.parent.mkdir()
    best.write_text('{"lr": 0.001}')
    folder.mkdir(parents=True)
    (folder / "train.json").touch()
    found = outputs.missing(settings, ["graphs"])
    assert found == [folder / f"{name}.json" for name in ("probe", "curve", "joint", "states")]

    (tmp_path / "RTE-bin").mkdir()
    (tmp_path / "RTE-bin" / "summary.json").touch()
    settings = Settings(tmp_path, models={"exlm": Path("model.pt")}, glue=tmp_path, finetune_seeds=(1, 2))
    best = tmp_path / "table3" / "exlm" / "glue" / "RTE" / "best.json"
    assert outputs.missing(settings, ["table3"]) == [best]
    (best.parent / "lr" / "seed-1").mkdir(parents=True)
    best.write_text('{"point": "lr"}')
    (best.parent / "lr" / "seed-1" / "result.json").touch()
    assert outputs.missing(settings, ["table3"]) == [best.parent / "lr" / "seed-2" / "result.json"]


def test_table_3(glue, checkpoint, tmp_path):
    only = {"batch": "16", "epochs": "3", "warmup": "0.06"}
    settings = Settings(OUT, glue=glue, models={"a": checkpoint, "b": checkpoint}, tasks=("RTE",), only=only)
    assert outputs.table3_grids(settings) == [("a", "RTE"), ("b", "RTE")]
    keys = [f"lr{rate}-b16-e3-w0.06" for rate in ("2e-5", "3e-5", "4e-5", "5e-5")]
    expected = [f"table3/a/glue/RTE/{key}/seed-1/result.json" for key in keys]
    assert names(outputs.table3_grid(settings, "a", "RTE")) == expected
    best = tmp_path / "best.json"
    best.write_text(json.dumps({"point": keys[1]}))
    seeds = [tmp_path / keys[1] / f"seed-{seed}" / "result.json" for seed in (1, 2, 3, 4, 5)]
    assert outputs.table3_seeds(settings, best) == seeds
    every = Settings(OUT, glue=glue, models={"a": checkpoint})
    assert len(outputs.table3_grids(every)) == 8
    assert sum(len(outputs.table3_grid(every, "a", task)) for _, task in outputs.table3_grids(every)) == 304
    both = Settings(OUT, squad=Path("squad"), models=settings.models, finetune_seeds=(1, 2))
    assert outputs.table3_grids(both) == [] and len(outputs.squad_files(both)) == 4
    with pytest.raises(ValueError, match="only=k=4: a fine-tuning has lr, batch, epochs, warmup"):
        outputs.table3_points(Settings(OUT, only={"k": "4"}), "RTE")
    with pytest.raises(UserError, match="flags: --lr, --max-epoch would apply to all points of a grid"):
        outputs.table3_points(Settings(OUT, flags="--lr 1e-3 --max-epoch 1 --bf16"), "RTE")


def test_what_table_3_needs(glue, checkpoint):
    with pytest.raises(UserError, match="table3 needs models=NAME=CHECKPOINT"):
        outputs.squad_files(Settings(OUT, glue=glue))
    with pytest.raises(UserError, match="table3 needs glue=FOLDER"):
        outputs.squad_files(Settings(OUT, models={"a": checkpoint}))
    (glue / "RTE-bin" / "summary.json").unlink()
    with pytest.raises(UserError, match="has no RTE-bin: prepare it with scripts/prepare_glue.py"):
        outputs.table3_tasks(Settings(OUT, glue=glue, tasks=("RTE",)))
    with pytest.raises(UserError, match="has no TASK-bin"):
        outputs.table3_tasks(Settings(OUT, glue=glue / "MNLI-bin"))


def test_table_1(tmp_path, checkpoint):
    sets = {name: tmp_path / name for name in ("bace", "bbbp")}
    settings = Settings(OUT, models={"exlm": checkpoint}, moleculenet=sets, finetune_seeds=(1,))
    for folder in sets.values():
        with pytest.raises(UserError, match="has no molecules.json"):
            outputs.table1_files(settings)
        folder.mkdir()
        (folder / "molecules.json").write_text("{}")
    expected = [
        f"table1/{name}/{data}/seed-1/metrics.json"
        for name in ("exlm", "untrained", "forest")
        for data in sets
    ]
    assert names(outputs.table1_files(settings)) == expected
    with pytest.raises(UserError, match="table1 needs moleculenet=SET=FOLDER"):
        outputs.table1_files(Settings(OUT, models={"exlm": checkpoint}))
    with pytest.raises(UserError, match="table1 needs models="):
        outputs.table1_files(Settings(OUT, moleculenet=sets))
