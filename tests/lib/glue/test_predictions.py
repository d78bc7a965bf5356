"""GLUE's predictions, and the metrics of saved ones."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from lib.command_line import UserError
from lib.glue.predictions import predict, scores_of
from lib.glue.tasks import TASKS


def test_scores_of_a_saved_file(tmp_path):
    path = tmp_path / "valid.tsv"
    rows = [("0", "1", "1"), ("1", "0", "1"), ("2", "0", "0"), ("3", "1", "0"), ("4", "1", "1")]
    path.write_text("index\tprediction\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows))
    found = scores_of(path, TASKS["MRPC"])
    assert list(found) == ["accuracy", "f1"]
    assert found == {"accuracy": pytest.approx(3 / 5, abs=1e-12), "f1": pytest.approx(2 / 3, abs=1e-12)}
    # by hand: (TP TN - FP FN) / sqrt((TP + FP)(TP + FN)(TN + FP)(TN + FN)) = (2 - 1) / 6
    assert scores_of(path, TASKS["CoLA"])["matthews"] == pytest.approx(1 / 6, abs=1e-12)


def test_outputs_that_are_not_finite(tmp_path, monkeypatch):
    class Broken(torch.nn.Module):
        def forward(self, src_tokens, **others):
            return torch.tensor([[1.0, 2.0], [float("nan"), 0.0]]), None

    batch = {"id": torch.arange(2), "net_input": {"src_tokens": torch.zeros(2, 1)}}
    batches = SimpleNamespace(next_epoch_itr=lambda shuffle: [batch])
    task = SimpleNamespace(load_dataset=lambda split: [0, 1], get_batch_iterator=lambda *a, **k: batches)
    cfg = SimpleNamespace(
        criterion=SimpleNamespace(classification_head_name="rte", regression_target=False),
        task=SimpleNamespace(num_classes=2),
    )
    monkeypatch.setattr(checkpoint_utils, "load_model_ensemble_and_task", lambda *a: ([Broken()], cfg, task))
    with pytest.raises(UserError, match="c.pt gives 1 of the 2 rows of the valid set no finite output"):
        predict(Path("c.pt"), tmp_path, TASKS["RTE"], ["valid"], "cpu")
