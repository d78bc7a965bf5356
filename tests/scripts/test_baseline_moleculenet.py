"""The baselines of table 1 on the same data."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import baseline_moleculenet
import prepare_moleculenet
import pytest
from sklearn.metrics import roc_auc_score

from fs_plugins.data.smiles_tokens import tokenize
from tests.support import builders
from tests.support.molecules import labelled_molecules, molecules, read_csv


def baseline(model: str, *words) -> str:
    """The output of baseline_moleculenet.py; D-MPNN runs in the environment that test.sh makes for it."""
    python = Path(sys.executable)
    if model == "dmpnn" and importlib.util.find_spec("chemprop") is None:
        python = Path(sys.prefix, "exlm-chemprop", "bin", "python")
        if not python.exists():
            pytest.skip("chemprop is not installed: scripts/test.sh makes an environment for it")
    command = [python, baseline_moleculenet.__file__, model, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "count", "flags"),
    [("forest", 100, ("--trees", "30")), ("dmpnn", 270, ("--max-epoch", "150"))],
)
def test_a_baseline_learns_what_a_ring_is(model, count, flags, tmp_path):
    """D-MPNN has to learn what the forest reads from a fingerprint."""
    builders.write_dictionary(tmp_path, sorted({token for one in molecules(270) for token in tokenize(one)}))
    data = labelled_molecules(tmp_path, count, tmp_path / "dict.txt")
    argv = [model, data, tmp_path / "run", "--seed", 2, "--cpu", *flags]
    baseline(*argv)
    result = json.loads((tmp_path / "run/result.json").read_text())
    found = result["metrics"]["test"]["properties"]["ring"]["auc"]
    assert found > 0.9 and result["seed"] == 2
    rows = read_csv(tmp_path / "run/test.predictions.csv")
    truth, predicted = ([float(row[name]) for row in rows] for name in ("ring (label)", "ring"))
    assert found == pytest.approx(roc_auc_score(truth, predicted))
    assert all(0 <= value <= 1 for value in predicted)
    assert "finished before" in baseline(*argv)


def test_molecules_that_chemprop_cannot_read_are_left_out_and_said(tmp_path, capsys, monkeypatch):
    """A stand-in for chemprop, which is not everywhere, sees no carbon with five bonds."""
    bad = "C(C)(C)(C)(C)C"
    lines = ["CO,1,train", "CN,0,train", f"{bad},0,train", "CCN,0,train", "CCCO,1,valid", "CCCN,0,valid"]
    lines += ["CCCCO,1,test", f"{bad}N,0,test"]
    (tmp_path / "a.csv").write_text("\n".join(["smiles,label,part", *lines]) + "\n")
    builders.write_dictionary(tmp_path, "CON()")
    argv = ["mine", tmp_path / "a.csv", tmp_path / "data", "--dictionary", tmp_path / "dict.txt"]
    argv += ["--split", "given", "--split-column", "part", "--valence", "allow"]
    assert prepare_moleculenet.main(list(map(str, argv))) == 0
    seen, valid = [], [("CCCO", "val", "1"), ("CCCN", "val", "0")]

    def chemprop(what, *words):
        files = [word for word in words if str(word).endswith(".csv")]
        if what == "train":
            seen.extend((row["smiles"], row["part"], row["0"]) for file in files for row in read_csv(file))
            return
        asked, answered = files
        found = [f"{row['smiles']},0.9" for row in read_csv(asked)]
        answered.write_text("\n".join(["smiles,0", *found]) + "\n")

    argv = ["dmpnn", str(tmp_path / "data"), str(tmp_path / "run"), "--cpu"]
    if importlib.util.find_spec("chemprop") is None:
        assert baseline_moleculenet.main(argv) == 2
        assert "pip install -e '.[chemprop]'" in capsys.readouterr().err and not (tmp_path / "run").exists()
    monkeypatch.setattr(baseline_moleculenet.importlib.util, "find_spec", {"chemprop": "installed"}.get)
    monkeypatch.setattr(baseline_moleculenet, "_chemprop", chemprop)
    assert baseline_moleculenet.main(argv) == 0
    assert seen == [("CO", "train", "1"), ("CN", "train", "0"), ("CCN", "train", "0"), *valid]
    said = capsys.readouterr().out
    assert "train: chemprop cannot read 1 of 4" in said and bad in said
    assert "test: chemprop cannot read 1 of 2" in said and "valid: chemprop" not in said
    predicted = [float(row["label"]) for row in read_csv(tmp_path / "run/test.predictions.csv")]
    assert predicted == [0.9, 0.25]  # the share of ones in train
    assert json.loads((tmp_path / "run/result.json").read_text())["metrics"]["test"]["unreadable"] == 1
