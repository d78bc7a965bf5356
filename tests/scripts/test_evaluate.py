"""What is evaluated, and what a checkpoint cannot make it do."""

import csv
import json
import shutil

import evaluate
import numpy as np
import pytest
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from sklearn.metrics import accuracy_score

from fs_plugins.huggingface.export import export
from fs_plugins.tasks.scored import NamedSplit, ScoredTask
from tests.support import builders

WORDS = builders.dictionary(builders.WORDS)
CLASSES = ["no", "maybe", "yes"]
GLUE = {"_name": "glue", "num_classes": 3, "init_token": 0, "separator_token": 2, "max_positions": 12}
GLUE |= {"shorten_method": "truncate", "classification_head_name": "h", "regression_target": False}


@register_task("of_ones_own", dataclass=SentencePredictionConfig)
class OfOnesOwn(ScoredTask, SentencePredictionTask):
    """A new task."""

    head, metric = {"features_only": True, "classification_head_name": "h"}, "surest"

    def load_dataset(self, split, **kwargs):
        self.datasets[split] = NamedSplit(super().load_dataset(split, **kwargs), split)
        return self.datasets[split]

    def rows(self, sample, outputs):
        return outputs.double().softmax(1)

    def score(self, split, ids, rows):
        return {"surest": rows.max(), "rows": len(ids)}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three classes, in the files of a GLUE task that is none of GLUE's."""
    folder, rng = tmp_path_factory.mktemp("glue") / "mine-bin", np.random.default_rng(1)
    for split, count in (("train", 9), ("valid", 8), ("other", 5)):
        sentences = builders.rows(WORDS, rng.integers(5, 20, count), rng)
        builders.write_split(folder / "input0", split, sentences, WORDS)
        labels = [[4 + i % 3, 2] for i in range(count)]
        builders.write_split(folder / "label", split, labels, builders.dictionary(CLASSES))
    return folder


@pytest.fixture
def checkpoint(save_checkpoint):
    """checkpoint(settings of the task, criterion, name of the head) -> its file."""

    def make(task=GLUE, criterion="sentence_prediction", head="h"):
        return save_checkpoint("mlm_tiny", criterion, task, heads=[("classification", head, 3)])

    return make


def evaluated(*words) -> dict:
    """result.json"""
    assert evaluate.main([*map(str, words), "--device", "cpu", "--batch-size", "3"]) == 0
    return json.loads((words[words.index("--output") + 1] / "result.json").read_text())


def test_classes_of_several_splits_and_rows_that_were_cut(checkpoint, data, tmp_path, capsys):
    result = evaluated(checkpoint(), data, "--output", tmp_path, "--split", "valid", "other")
    lengths = evaluate.row_lengths(data, "valid")
    cut = int((lengths > 12).sum())
    assert 0 < cut < len(lengths) == 8 and result["cut"]["valid"] == [cut, 12]
    assert f"mine valid (8 rows, {cut} of them cut to 12 tokens): accuracy" in capsys.readouterr().out
    for split, count in (("valid", 8), ("other", 5)):
        with (tmp_path / "predictions" / f"{split}.tsv").open() as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        truth, predicted = ([row[name] for row in rows] for name in ("label", "prediction"))
        assert truth == [CLASSES[i % 3] for i in range(count)]
        outputs = [[float(row[f"output{i}"]) for i in range(3)] for row in rows]
        assert predicted == [CLASSES[i] for i in np.argmax(outputs, 1)]
        assert result["metrics"][split] == {"accuracy": accuracy_score(truth, predicted)}
    assert result["rows"] == {"valid": 8, "other": 5, "train": 9} and result["metric"] == "accuracy"


def test_an_exported_model_is_evaluated_as_its_checkpoint(checkpoint, data, tmp_path):
    path, results = checkpoint(), []
    for model in (path, export(path, tmp_path / "model", data=data)):
        results.append(evaluated(model, data, "--output", tmp_path / str(len(results))))
        predictions = np.loadtxt(tmp_path / str(len(results) - 1) / "predictions/valid.tsv", str, skiprows=1)
        results[-1]["outputs"] = predictions[:, 3:].astype(float)
    first, second = results
    np.testing.assert_allclose(first.pop("outputs"), second.pop("outputs"), atol=1e-5)
    assert {name: first[name] for name in ("metrics", "rows")} == {n: second[n] for n in ("metrics", "rows")}


def test_a_task_of_ones_own(checkpoint, data, tmp_path, monkeypatch):
    monkeypatch.setattr("fs_plugins.checkpoint_settings.TASKS", ["of_ones_own"])
    result = evaluated(checkpoint({**GLUE, "_name": "of_ones_own"}), data, "--output", tmp_path)
    outputs = np.loadtxt(tmp_path / "valid.tsv", skiprows=1)
    assert outputs[:, 0].tolist() == list(range(8)) and outputs[:, 1:].sum(1) == pytest.approx(1)
    assert result["metrics"] == {"valid": {"surest": outputs[:, 1:].max(), "rows": 8}}


def test_lengths_of_rows(tmp_path):
    first, second = [[5, 6, 7, 2], [5, 2]], [[6, 2], [5, 6, 7, 2]]
    builders.write_split(tmp_path / "input0", "train", first, WORDS)
    assert evaluate.row_lengths(tmp_path, "train").tolist() == [1 + 4, 1 + 2]  # <s> A </s>
    builders.write_split(tmp_path / "input1", "train", second, WORDS)
    expected = [1 + 4 + 1 + 2, 1 + 2 + 1 + 4]  # <s> A </s> </s> B </s>
    assert evaluate.row_lengths(tmp_path, "train").tolist() == expected


def test_checkpoints_are_removed_last(checkpoint, data, tmp_path, refused):
    model = checkpoint().rename(tmp_path / "checkpoint_best.pt")
    (tmp_path / "checkpoint_last.pt").write_bytes(b"")
    words = [model, data, "--output", tmp_path]
    evaluated(*words, "--remove", "others")
    assert [path.name for path in tmp_path.glob("*.pt")] == ["checkpoint_best.pt"]
    assert "give --overwrite" in refused(evaluate.main, *words, "--remove", "all")
    evaluated(*words, "--remove", "all", "--overwrite")
    assert not list(tmp_path.glob("*.pt")) and (tmp_path / "result.json").exists()


def test_options_that_do_not_fit(checkpoint, data, tmp_path, refused):
    for flag, value in (("--threshold", "nan"), ("--threshold", "1"), ("--split", "test")):
        words = (checkpoint(), data, "--output", tmp_path / "out", flag, value)
        assert value in refused(evaluate.main, *words)


def test_no_criterion_and_no_other_task_is_built(checkpoint, data, tmp_path, refused, monkeypatch):
    """fairseq evaluates the settings of some criteria as Python."""
    monkeypatch.chdir(tmp_path)
    code = "__import__('pathlib').Path('RUN').touch()"
    criteria = ({"_name": "ctc", "wer_args": code}, {"_name": "model", "can_sum": code})
    given = {criterion["_name"]: {"criterion": criterion} for criterion in criteria}
    tasks = ("masked_lm", "sentence_prediction", "speech_to_text", "ScoredTask")
    given |= {name: {"task": {**GLUE, "_name": name}} for name in tasks}
    for name, settings in given.items():
        with monkeypatch.context() as patched:
            patched.setattr("fairseq.tasks.setup_task", None)
            path = checkpoint(**settings)
            assert name in refused(evaluate.main, path, data, "--output", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    evaluated(checkpoint(criterion="squad2"), data, "--output", tmp_path / "out")  # could not score it
    assert not (tmp_path / "RUN").exists()


def test_no_other_classes_are_evaluated(checkpoint, data, corpus, tmp_path, refused):
    """fairseq drops a head of other classes, and evaluates one that was never trained."""
    dropped, path = checkpoint({**GLUE, "num_classes": 2}), tmp_path / "other-bin"
    shutil.copytree(data, path)
    (path / "label" / "dict.txt").write_text("no 1\nmaybe 1\nmadeupword0000 0\n")
    named_rte = checkpoint({**GLUE, "classification_head_name": "rte"}, head="rte")
    for words, named in (
        ((dropped, data), "classification_heads.h.out_proj"),
        ((checkpoint(), path), "3 classes"),
        ((checkpoint(), corpus), f"does not fit {corpus}"),
        ((checkpoint(), tmp_path / "none"), f"does not fit {tmp_path}/none"),
        ((named_rte, shutil.copytree(data, tmp_path / "QQP-bin")), "fine-tuned on RTE: "),
    ):
        assert named in refused(evaluate.main, *words, "--output", tmp_path / "out")
    assert not list(tmp_path.glob("out/*"))
