"""Which rows were evaluated, and what is written of them."""

import json

import baseline_moleculenet
import numpy as np
import pytest
from lib.moleculenet import read_split, rows_sha256, write_results

from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.finetuning.outputs import PropertyInfo
from tests.support import builders
from tests.support.builders import write_file
from tests.support.molecules import labelled_molecules, molecules
from tests.support.prepared import write_properties


def write_folder(folder, labels):
    rows = [([0], label) for label in labels]
    return write_properties(folder, {"train": rows, "test": rows}, dataset="mine", split={})


def test_rows_differ_by_line_and_label(tmp_path):
    def hashed(labels, *molecules):
        write_folder(tmp_path, labels)
        write_file(tmp_path / "test.tsv", "".join(f"{line}\n" for line in ("line\tsmiles", *molecules)))
        return rows_sha256(read_split(tmp_path, "test", ("a",)))

    one = hashed([[0.0], [np.nan]], "2\tC", "3\tCC")
    assert one == hashed([[0.0], [np.nan]], "2\t[CH4]", "3\tCC")
    assert one != hashed([[0.0], [np.nan]], "2\tC", "4\tCC")
    assert one != hashed([[0.0], [0.0]], "2\tC", "3\tCC")


def test_a_class_is_predicted_above_one_half(tmp_path):
    """Whether a model gives logits, or a baseline probabilities."""
    write_folder(tmp_path, [[0.0], [1.0], [0.0]])
    info = PropertyInfo("classification", ("a",), (0.0,), (1.0,))
    logits = np.array([[-1.0], [2.0], [0.5]])
    for save, values in (("logits", logits), ("probabilities", 1 / (1 + np.exp(-logits)))):
        (tmp_path / save).mkdir()
        folder, logits = tmp_path / save, save == "logits"
        write_results(folder, tmp_path, save, {"test": values}, folder, info, logits)
        result = json.loads((tmp_path / save / "result.json").read_text())
        assert result["metrics"]["test"]["mcc"] == pytest.approx(0.5)  # of the three one is wrong


def test_a_baseline_follows_its_seed(tmp_path):
    builders.write_dictionary(tmp_path, sorted({token for one in molecules(40) for token in tokenize(one)}))
    data, found = labelled_molecules(tmp_path, 40, tmp_path / "dict.txt"), []
    for save, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        words = [data, tmp_path / save, "--trees", "3", "--seed", seed]
        assert baseline_moleculenet.main([*map(str, words)]) == 0
        found.append((tmp_path / save / "test.predictions.csv").read_text())
    assert found[0] == found[1] != found[2]
    rows = np.eye(2)[[0, 1] * 9]  # the second column tells the class
    first, second = baseline_moleculenet.predicted(rows, rows[:, 1], np.eye(2), False, random_state=1)
    assert first < 0.1 and second > 0.9
