"""What is evaluated, and what a checkpoint cannot make it do."""

import csv
import json
import shutil

import evaluate
import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from fs_plugins.huggingface.export import export
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
        heads = [("classification", head, 3)]
        return save_checkpoint(
            "mlm_tiny", "squad2", task, heads=heads, symbols=prepared.WORDS, data=data / "input0"
        )

    return make


def evaluated(*words) -> dict:
    """result.json"""
    assert evaluate.main([*map(str, words), "--device", "cpu", "--batch-size", "3"]) == 0
    return json.loads((words[words.index("--output") + 1] / "result.json").read_text())


def test_classes_of_several_splits_and_rows_that_were_cut(checkpoint, data, tmp_path, capsys):
    result = evaluated(checkpoint(), data, "--output", tmp_path, "--split", "valid", "valid1")
    pairs = zip(*(builders.read_split(data / name, "valid") for name in ("input0", "input1")), strict=True)
    lengths = [1 + len(first) + 2 + len(second) + 1 for first, second in pairs]  # <s> A </s> </s> B </s>
    cut = sum(length > 36 for length in lengths)
    assert 0 < cut < len(lengths) == 8 and result["cut"]["valid"] == [cut, 36] and 36 in lengths
    assert f"mine valid (8 rows, {cut} of them cut to 36 tokens): accuracy" in capsys.readouterr().out
    for split in ("valid", "valid1"):
        with (tmp_path / "predictions" / f"{split}.tsv").open() as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        truth, predicted = ([row[name] for row in rows] for name in ("label", "prediction"))
        assert truth == [CLASSES[i % 3] for i in range(8)]
        outputs = [[float(row[f"output{i}"]) for i in range(3)] for row in rows]
        assert predicted == [CLASSES[i] for i in np.argmax(outputs, 1)]
        assert result["metrics"][split] == {"accuracy": accuracy_score(truth, predicted)}
    assert result["rows"] == {"valid": 8, "valid1": 8, "train": 1013} and result["metric"] == "accuracy"


def test_an_exported_model_is_evaluated_as_its_checkpoint(checkpoint, data, tmp_path, refused):
    path, results = checkpoint(), []
    for model in (path, export(path, tmp_path / "model", data=data)):
        results.append(evaluated(model, data, "--output", tmp_path / str(len(results))))
        predictions = np.loadtxt(tmp_path / str(len(results) - 1) / "predictions/valid.tsv", str, skiprows=1)
        results[-1]["outputs"] = predictions[:, 3:].astype(float)
    first, second = results
    config = json.loads((tmp_path / "model/config.json").read_text())
    config["id2label"] = {"0": CLASSES[1], "1": CLASSES[0], "2": CLASSES[2]}  # trained in this order
    builders.write_file(tmp_path / "model/config.json", config)
    message = refused(evaluate.main, tmp_path / "model", data, "--output", tmp_path / "2")
    assert (
        "classes are neutral, contradiction, entailment, the data's contradiction, neutral, entailment"
        in message
    )
    np.testing.assert_allclose(first.pop("outputs"), second.pop("outputs"), atol=1e-5)
    assert {name: first[name] for name in ("metrics", "rows")} == {n: second[n] for n in ("metrics", "rows")}


def test_other_molecules_have_the_properties_and_the_scale_of_the_training(save_checkpoint, tmp_path):
    """Their folder has another spread, the columns in another order, and lacks one."""
    names = ("a", "b", "c")
    path = molecule_checkpoint(save_checkpoint, "regression", names, (1.0, 2.0, 3.0), (4.0, 0.5, 2.0))
    rows = [([0, 1], [1, 0]), ([2], [0, 1]), ([3, 1, 2], [1, 1])]
    folder = prepared.write_properties(
        tmp_path / "data", {"train": rows, "valid": rows}, "regression", builders.ATOMS
    )
    about = {**json.loads((folder / "molecules.json").read_text()), "dataset": "mine", "split": {}}
    builders.write_file(folder / "molecules.json", {**about, "names": ("c", "a")})
    metrics = evaluated(path, folder, "--output", tmp_path)["metrics"]["valid"]
    assert (metrics["molecules"], metrics["labels"], metrics["scored_properties"]) == (3, 6, 2)
    with (tmp_path / "valid.predictions.csv").open() as file:
        found = list(csv.DictReader(file))
    labels = [[row[f"{name} (label)"] for name in names] for row in found]
    assert labels == [["0", "", "1"], ["1", "", "0"], ["1", "", "1"]]
    squares = [[(float(row[name]) - float(row[f"{name} (label)"])) ** 2 for row in found] for name in "ac"]
    a, c = np.mean(squares, axis=1) ** 0.5
    errors = {name: one["rmse"] for name, one in metrics["properties"].items()}
    assert errors == {"a": pytest.approx(a), "b": None, "c": pytest.approx(c)}
    assert metrics["scaled_rmse"] == pytest.approx((a / 4.0 + c / 2.0) / 2)


def test_another_task_of_as_many_classes_is_refused(checkpoint, data, tmp_path, refused):
    of_rte = checkpoint({**GLUE, "classification_head_name": "rte"}, head="rte")
    words = (of_rte, shutil.copytree(data, tmp_path / "QQP-bin"), "--output", tmp_path / "out")
    assert "RTE" in refused(evaluate.main, *words)
    assert not list(tmp_path.glob("out/*"))
