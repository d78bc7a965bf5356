"""The task: batches, heads, what checkpoints hold, and bad data."""

import argparse

import numpy as np
import pytest
import torch
from fairseq.trainer import Trainer

from fs_plugins.finetuning.moleculenet.task import MoleculePropertyConfig, MoleculePropertyTask
from tests.support import builders
from tests.support.prepared import write_properties

NAN = float("nan")
ROWS = [([0, 1, 2], [0, 1, NAN]), ([3], [1, NAN, NAN]), ([4, 5, 6, 7, 0], [0, 0, NAN])]


def task(folder, **options):
    options = {"classification_head_name": "property", "seed": 1, **options}
    return MoleculePropertyTask.setup_task(MoleculePropertyConfig(data=str(folder), **options))


@pytest.fixture
def folder(tmp_path):
    return write_properties(tmp_path / "data", {"train": ROWS, "valid": ROWS})


def test_half_precision_leaves_labels_as_they_are(tmp_path):
    """The batch as fairseq's trainer converts it."""
    values = [[3.456, -70000.0], [-12.34, NAN]]
    rows = [([0, 1, 2], values[0]), ([3], values[1])]
    folder = write_properties(tmp_path / "data", {"train": rows}, kind="regression")
    dataset = task(folder).load_dataset("train")
    trainer = argparse.Namespace(cfg=argparse.Namespace(common=argparse.Namespace(fp16=False, bf16=True)))
    batch = Trainer._fp_convert_sample(trainer, dataset.collater([dataset[0], dataset[1]]))
    torch.testing.assert_close(batch["target"].float(), torch.tensor(values), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("k", [1, 3])
def test_a_batch(folder, k, caplog):
    """As written by hand. Each token of a Repeated MLM's is repeated; molecules are cut where (their copies)
    fill the positions."""
    setup = task(folder, repeat_times=k)
    setup.build_model(builders.flags("mlm_tiny", **{**builders.SMALL, "max_positions": 7 * k - 1}))
    dataset = setup.load_dataset("train")
    batch = dataset.collater([dataset[i] for i in (2, 0)])
    rows = [[0, 8, 9, 10, 11, 2], [0, 4, 5, 6, 2, 1]]
    wanted = [[token for token in row for _ in range(k)] for row in rows]
    assert batch["net_input"]["src_tokens"].tolist() == wanted
    assert batch["net_input"]["src_lengths"].tolist() == [6 * k, 5 * k]
    assert (batch["ntokens"], dataset.num_tokens(2), setup.max_positions()) == (11 * k, 6 * k, 6)
    expected = torch.tensor([[0, 0, NAN], [0, 1, NAN]], dtype=torch.float64)
    torch.testing.assert_close(batch["target"], expected, equal_nan=True)
    assert (batch["id"].tolist(), batch["split"], batch["nsentences"]) == ([2, 0], "train", 2)
    assert "train: molecules of more than 6 tokens" in caplog.text and "1 of 3" in caplog.text
    four = task(folder, tokens_per_molecule=4).load_dataset("train")
    assert four[2]["net_input.src_tokens"].tolist() == [0, 8, 9, 2]


def test_another_dictionary_and_labels_of_other_molecules(folder):
    np.save(folder / "valid.labels.npy", np.zeros((3, 2), np.float32))
    with pytest.raises(ValueError, match=r"\(3, 2\).* 3 .* 3"):
        task(folder).load_dataset("valid")
    builders.write_dictionary(folder, ["other"])
    with pytest.raises(ValueError, match="dict.txt"):
        task(folder)


def test_the_order_of_the_training_follows_the_seed(folder):
    rows = [([0] * (1 + i % 5), [i % 2, 0, NAN]) for i in range(40)]
    write_properties(folder, {"train": rows, "valid": ROWS})
    orders = [task(folder, seed=seed).load_dataset("train").ordered_indices() for seed in (1, 1, 2)]
    assert orders[0].tolist() == orders[1].tolist() != orders[2].tolist()
    assert sorted(orders[2].tolist()) == list(range(40))


def test_small_values_keep_their_digits(tmp_path):
    """Permeabilities in cm/s, and a property whose labels are all the same."""
    rows = [([i], [1e-7 * i, 0.1]) for i in range(3)]
    setup = task(write_properties(tmp_path / "data", {"train": rows}, "regression"))
    assert setup.properties.std == (pytest.approx(np.std([0, 1e-7, 2e-7])), 1.0)
    assert setup.logged({"rmse": 1.2345678e-8})["rmse"] == 1.23457e-8
