"""Which rows were evaluated, and what is written of them."""

import json

import baseline_moleculenet
import numpy as np
import pytest
from lib.finetuning.moleculenet.results import (
    LabelledSplit,
    truth_against_prediction,
    write_predictions,
    write_results,
)

from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.finetuning.outputs import PropertyInfo
from tests.support import builders
from tests.support.builders import write_file
from tests.support.molecules import labelled_molecules, molecules


def test_rows_differ_by_line_and_label():
    labels = np.array([[0.0], [np.nan]], np.float32)
    one = LabelledSplit(["2", "3"], ["C", "CC"], labels).sha256
    assert one == LabelledSplit(["2", "3"], ["[CH4]", "CC"], labels.copy()).sha256
    assert one != LabelledSplit(["2", "4"], ["C", "CC"], labels).sha256
    assert one != LabelledSplit(["2", "3"], ["C", "CC"], np.nan_to_num(labels)).sha256


def test_a_property_may_be_named_as_a_column_is(tmp_path):
    split = LabelledSplit(["2", "3"], ["C", "CC"], np.array([[0.0], [np.nan]], np.float32))
    info = PropertyInfo("classification", ("line",), (0.0,), (1.0,))
    write_predictions(tmp_path / "a.csv", split, np.array([[0.25], [1.0]]), info)
    assert (tmp_path / "a.csv").read_text() == "line,smiles,line,line (label)\n2,C,0.25,0\n3,CC,1,\n"


def test_a_picture_has_each_label_and_its_prediction(tmp_path):
    """Of the properties that have labels, beside the result."""
    labels = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, 5.0]])
    predictions = np.array([[2.0, 7.0, 2.5], [8.0, 9.0, 6.0]])
    figure = truth_against_prediction(["a", "b", "$c_$"], labels, predictions, "")
    points = [axes.lines[-1].get_xydata().tolist() for axes in figure.axes]
    assert points == [[[1.0, 2.0]], [[3.0, 2.5], [5.0, 6.0]]]
    info = PropertyInfo("regression", ("a", "b", "$c_$"), (0.0,) * 3, (1.0,) * 3).to_dict()
    write_file(tmp_path / "molecules.json", {**info, "dataset": "mine", "split": {}})
    write_file(tmp_path / "test.tsv", "line\tsmiles\n2\tC\n3\tCC\n")
    np.save(tmp_path / "test.labels.npy", labels)
    write_results(tmp_path, tmp_path, "m", {"test": predictions})
    assert (tmp_path / "test.predictions.png").read_bytes().startswith(b"\x89PNG")


def test_a_class_is_predicted_above_one_half(tmp_path):
    """Whether a model gives logits, or a baseline probabilities."""
    info = PropertyInfo("classification", ("a",), (0.0,), (1.0,)).to_dict()
    write_file(tmp_path / "molecules.json", {**info, "dataset": "mine", "split": {}})
    write_file(tmp_path / "valid.tsv", "line\tsmiles\n2\tC\n3\tCC\n4\tCCC\n")
    np.save(tmp_path / "valid.labels.npy", [[0.0], [1.0], [0.0]])
    logits = np.array([[-1.0], [2.0], [0.5]])
    for save, values in (("logits", logits), ("probabilities", 1 / (1 + np.exp(-logits)))):
        (tmp_path / save).mkdir()
        write_results(tmp_path / save, tmp_path, save, {"valid": values}, logits=save == "logits")
        result = json.loads((tmp_path / save / "result.json").read_text())
        assert result["metrics"]["valid"]["mcc"] == pytest.approx(0.5)  # of the three one is wrong


def test_a_baseline_follows_its_seed(tmp_path):
    builders.write_dictionary(tmp_path, sorted({token for one in molecules(40) for token in tokenize(one)}))
    data, found = labelled_molecules(tmp_path, 40, tmp_path / "dict.txt"), []
    for save, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        words = [data, tmp_path / save, "--trees", "3", "--seed", seed]
        assert baseline_moleculenet.main([*map(str, words)]) == 0
        found.append((tmp_path / save / "test.predictions.csv").read_text())
    assert found[0] == found[1] != found[2]
