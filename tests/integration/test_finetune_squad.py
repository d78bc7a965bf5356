"""finetune_squad.sh: trains, answers, scores, and does so once."""

import json

import pytest

from tests import pages
from tests.integration import commands


@pytest.mark.slow
def test_trains_predicts_and_does_not_repeat(pretrained, squad_data, tmp_path):
    words = (pretrained, squad_data, tmp_path, "--cpu", "--window-tokens", 60, "--max-epoch", 1, "--lr", 1e-3)
    said = pages.in_bash("finetune_squad", *words)
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["task"], result["seed"], result["checkpoint"]) == ("squad2", 1, str(pretrained))
    scores = result["metrics"]["valid"]
    assert f"F1 {scores['f1']:.2f}" in said
    logged = commands.parse((tmp_path / "train.log").read_text()).stats["valid"][-1]
    assert float(logged["valid_f1"]) == pytest.approx(scores["f1"], abs=0.006)
    assert float(logged["valid_em_swept"]) == pytest.approx(scores["best_exact"], abs=0.006)
    assert len(json.loads((tmp_path / "predictions.json").read_text())) == scores["total"] == 12
    before = (tmp_path / "train.log").read_text()
    assert f"valid f1 {scores['f1']}" in pages.run("finetune_squad", *words)
    assert (tmp_path / "train.log").read_text() == before
