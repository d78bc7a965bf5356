"""Results as frames; what cannot be read is told, and does not stop a report."""

import json

import pytest
from lib.report.finetunings import finetunings
from lib.report.study import pretrainings

from tests.lib.report.conftest import glue_result, trained


def test_a_pre_training_is_what_its_file_says(tmp_path, add, problems):
    states = [
        {"updates": u, "results": [{"mask_prob": 0.3, "divergence": {"mean": u / 10, "tokens": 5}}]}
        for u in (1, 2)
    ]
    folder = add("a", 3, "0.002", 2e-3, train=trained(corrupted=0.25), states={"rows": states})
    glue_result(folder / "glue/RTE/table6/seed-2", "RTE", 0.5, seed=2)
    found = pretrainings(tmp_path, problems)
    assert set(zip(found["name"], found["seed"], found["rate"], strict=True)) == {("a", 3, "0.002")}
    values = found.set_index(["measure", "metric"])["value"]
    assert values["train", "corrupted.proportion"] == 0.25 and values["train", "run.lr"] == 2e-3
    divergence = found[found["metric"] == "divergence"]
    assert divergence["value"].tolist() == [0.1, 0.2] and divergence["updates"].tolist() == [1, 2]
    assert set(divergence["mask_prob"]) == {0.3} and "manifest" not in set(found["measure"])
    tuned = found[found["measure"] == "glue"]
    assert (
        tuned[["metric", "tuning_seed", "value"]].to_numpy().tolist() == [["RTE", 2, 0.5]] and problems == []
    )


@pytest.mark.parametrize("content", [b'{"results": 1', b"\xff\xfe"])
def test_a_damaged_measurement_is_told_and_the_others_are_used(tmp_path, add, problems, content):
    folder = add("a", train=trained())
    (folder / "probe.json").write_bytes(content)
    assert "gpu_seconds" in set(pretrainings(tmp_path, problems)["metric"])
    [problem] = problems
    assert str(folder / "probe.json") in problem and "is damaged" in problem


def test_damaged_fine_tunings_are_told(tmp_path, problems):
    path = glue_result(tmp_path / "a", "RTE", 0.5)
    path.write_text(path.read_text()[:-20])
    about = {"task": "squad2", "metric": "f1", "metrics": {"valid": {}}}
    for folder, content in (("b", {"task": "RTE"}), ("c", about)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "result.json").write_text(json.dumps(content))
    glue_result(tmp_path / "d", "RTE", None)
    assert finetunings("m", tmp_path, problems).empty
    assert len(problems) == 4
