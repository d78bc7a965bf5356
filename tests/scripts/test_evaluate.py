"""What is evaluated, and what a checkpoint cannot make it do."""

import json
import math
import shutil

import evaluate
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import accuracy_score

from fs_plugins.inference import load
from tests.huggingface.test_export import molecule_checkpoint
from tests.support import builders, prepared

CLASSES = ["contradiction", "neutral", "entailment"]
GLUE = {"_name": "glue", "num_classes": 3, "init_token": 0, "separator_token": 2, "max_positions": 36}
GLUE |= {"shorten_method": "truncate", "classification_head_name": "h", "regression_target": False}


@pytest.fixture
def data(toy_inputs, tmp_path):
    """Three classes of pairs, as of a GLUE task that is none of GLUE's; 8 rows in each development set."""
    return shutil.copytree(toy_inputs / "glue/MNLI-bin", tmp_path / "mine-bin")


@pytest.fixture
def checkpoint(save_checkpoint, data):
    """checkpoint(settings of the task, name of the head) -> its file; its criterion could not score it."""

    def make(task=GLUE, head="h"):
        about = {"heads": [("classification", head, 3)], "symbols": prepared.WORDS, "data": data / "input0"}
        return save_checkpoint("mlm_tiny", "squad2", task, **about)

    return make


def evaluated(*words) -> dict:
    """result.json"""
    assert evaluate.main([*map(str, words), "--device", "cpu", "--batch-size", "3"]) == 0
    return json.loads((words[words.index("--output") + 1] / "result.json").read_text())


def test_classes_of_several_splits_and_rows_that_were_cut(checkpoint, data, tmp_path):
    result = evaluated(checkpoint(), data, "--output", tmp_path, "--split", "valid", "valid1")
    pairs = zip(*(builders.read_split(data / name, "valid") for name in ("input0", "input1")), strict=True)
    lengths = [1 + len(first) + 2 + len(second) + 1 for first, second in pairs]  # <s> A </s> </s> B </s>
    cut = sum(length > 36 for length in lengths)
    assert 0 < cut < len(lengths) == 8 and result["cut"]["valid"] == [cut, 36] and 36 in lengths
    for first, split in enumerate(("valid", "valid1")):
        rows = pd.read_csv(tmp_path / "predictions" / f"{split}.tsv", sep="\t")
        assert rows["label"].tolist() == [CLASSES[(first + i) % 3] for i in range(8)]
        best = rows[[f"output{i}" for i in range(3)]].to_numpy().argmax(1)
        assert rows["prediction"].tolist() == [CLASSES[i] for i in best]
        assert result["metrics"][split] == {"accuracy": accuracy_score(rows["label"], rows["prediction"])}
    assert result["rows"] == {"valid": 8, "valid1": 8, "train": 1013} and result["metric"] == "accuracy"


def test_other_molecules_have_properties_and_scale_of_the_training(save_checkpoint, tmp_path, refused):
    """Their folder has another spread, the columns in another order, and lacks one."""
    names = ("a", "b", "c")
    path = molecule_checkpoint(save_checkpoint, "regression", names, (1.0, 2.0, 3.0), (4.0, 0.5, 2.0))
    rows = [([0, 1], [1, 0]), ([2], [0, 1]), ([1, 0, 2], [1, 1])]  # CN, O and NCO
    splits = {"train": rows, "valid": rows}
    folder = prepared.write_properties(tmp_path / "data", splits, "regression", builders.ATOMS)
    about = {**json.loads((folder / "molecules.json").read_text()), "dataset": "mine", "split": {}}
    builders.write_file(folder / "molecules.json", {**about, "names": ("c", "a")})
    metrics = evaluated(path, folder, "--output", tmp_path)["metrics"]["valid"]
    assert (metrics["molecules"], metrics["labels"], metrics["scored_properties"]) == (3, 6, 2)
    found = pd.read_csv(tmp_path / "valid.predictions.csv")
    predicted = [row for row, _ in load(path, device="cpu").predict(["CN", "O", "NCO"])]
    np.testing.assert_allclose(found[[*names]].to_numpy(), predicted, rtol=1e-5)
    labels = [found[f"{name} (label)"].tolist() for name in "ac"]
    assert labels == [[0, 1, 1], [1, 0, 1]] and found["b (label)"].isna().all()
    a, c = np.mean((found[["a", "c"]].to_numpy().T - labels) ** 2, axis=1) ** 0.5
    errors = {name: one["rmse"] for name, one in metrics["properties"].items()}
    assert errors == {"a": pytest.approx(a), "b": None, "c": pytest.approx(c)}
    assert metrics["scaled_rmse"] == pytest.approx((a / 4.0 + c / 2.0) / 2)
    builders.write_file(folder / "molecules.json", {**about, "canonical": False})
    assert "with canonical True" in refused(evaluate.main, path, folder, "--output", tmp_path / "out")


def test_outputs_of_another_task_and_those_that_are_not_finite(checkpoint, data, tmp_path, refused):
    of_rte = checkpoint({**GLUE, "classification_head_name": "rte"}, head="rte")
    (tmp_path / "QQP-bin").symlink_to(data)
    words = (tmp_path / "QQP-bin", "--output", tmp_path / "out")
    assert "RTE" in refused(evaluate.main, of_rte, *words)
    state = torch.load(path := checkpoint(), weights_only=False)
    state["model"]["classification_heads.h.out_proj.bias"][1] = math.nan
    torch.save(state, path)
    assert "8 of 8 rows of valid" in refused(evaluate.main, path, *words)
    assert not list(tmp_path.glob("out/*"))


def test_what_is_refused_before_any_work(checkpoint, data, tmp_path, refused, monkeypatch):
    monkeypatch.setattr(evaluate, "predict", None)
    words = (checkpoint(), data, "--output", tmp_path / "out", "--split", "valid", "--split", "tset")
    assert "tset" in refused(evaluate.main, *words)
    builders.write_file(tmp_path / "out" / "checkpoint_last.pt", "")
    assert "an unfinished training" in refused(evaluate.main, *words[:4])
