"""Table 1 from results, beside the paper's."""

import json

import numpy as np
import pytest
import report_moleculenet


def result(folder, dataset, seed, auc, kind="classification", **more):
    folder.mkdir(parents=True)
    metric = {"auc": auc} if kind == "classification" else {"rmse": auc, "mae": auc}
    content = {"dataset": dataset, "seed": seed, "kind": kind, "valid": {}, "test": metric, **more}
    (folder / "metrics.json").write_text(json.dumps(content))


def test_report(tmp_path, capsys):
    for dataset, aucs in (("bbbp", (0.70, 0.72, 0.77)), ("bace", (0.8,))):
        for seed, auc in enumerate(aucs, start=1):
            result(tmp_path / "a" / dataset / f"seed-{seed}", dataset, seed, auc)
    result(tmp_path / "b/esol/seed-1", "esol", 1, 0.5, "regression")
    report_moleculenet.main([f"ExLM small={tmp_path / 'a'}", f"other={tmp_path / 'b'}"])
    text = capsys.readouterr().out
    lines = text.splitlines()
    own = next(line for line in lines if line.startswith("| ExLM small"))
    # the mean of 70, 72 and 77 is 73; their sample deviation is 3.6
    assert own == "| ExLM small | 80.0 | 73.0 ± 3.6 | - | - | - | - | - | - |"
    paper = "| ExLM | 79.6 | 72.8 | 78.2 | 64.5 | 78.8 | 91.6 | 66.9 | 76.1 |"
    assert paper in lines
    assert "- ExLM small, bace: 1 of 3 seeds" in lines
    assert "| other | 0.500 |" in lines
    with pytest.raises(SystemExit, match="there is no metrics.json"):
        (tmp_path / "empty").mkdir()
        report_moleculenet.main([f"x={tmp_path / 'empty'}"])
    result(tmp_path / "a" / "twice", "bbbp", 1, 0.9)
    with pytest.raises(SystemExit, match="seed 1 of bbbp is in"):
        report_moleculenet.main([f"x={tmp_path / 'a'}"])


def test_paper_numbers_agree_with_their_means():
    paper = json.loads(report_moleculenet.PAPER.read_text())["table1"]
    for name, mean in paper["mean"].items():
        assert np.mean(paper["rows"][name]) == pytest.approx(mean, abs=0.06), name
