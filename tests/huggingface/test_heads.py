"""Heads that transformers trained mean here what they mean there."""

import json

import numpy as np
import pytest
import torch

from fs_plugins.finetuning.outputs import CLASSES, PROBLEMS, REGRESSION, Outputs
from fs_plugins.huggingface.export import export
from fs_plugins.huggingface.restore import restore, save
from fs_plugins.inference import load as load_model
from tests.huggingface.test_export import GLUE, molecule_checkpoint
from tests.support import builders

SMILES = ["CCO", "CC(N)=O", "C", "OC", "CCCCN", "NCC(=O)O"]
NAMED = {"id2label": {0: "low", 1: "middle", 2: "high"}}
HEADS = {  # settings, and what labels of six texts begin with
    "a number": ({"num_labels": 1}, [[3.5], [-1], [0.5], [2], [9], [4]]),
    "three numbers": ({"num_labels": 3, "problem_type": "regression"}, [[300.0, 0, -2]] * 6),
    "three classes": (NAMED, [0, 2, 1, 2, 1, 2]),
    "three labels": ({"num_labels": 3}, [[1.0, 0, 1]] * 3 + [[0.0, 1, 1]] * 3),
}


@pytest.fixture
def trained(load):
    """trained(folder, texts, labels, to, settings): trains a head on a folder's encoder, saved in ``to``."""

    def train(folder, texts, labels, to, **settings):
        torch.manual_seed(1)
        tokenizer = load("AutoTokenizer", folder)
        model = load("AutoModelForSequenceClassification", folder, **settings).train()
        inputs, labels = tokenizer(texts, return_tensors="pt", padding=True), torch.tensor(labels)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        for _ in range(5):
            optimizer.zero_grad()
            model(**inputs, labels=labels).loss.backward()
            optimizer.step()
        for part in (model, tokenizer):
            part.save_pretrained(to)
        return to

    return train


def by_pipeline(transformers, folder, texts) -> tuple[list[str], np.ndarray]:
    """Names and [texts, outputs] of transformers' own pipeline."""
    pipe = transformers.pipeline("text-classification", str(folder), trust_remote_code=True, top_k=None)
    rows = [{one["label"]: one["score"] for one in row} for row in pipe(texts)]
    names = list(pipe.model.config.id2label.values())
    return names, np.array([[row[name] for name in names] for row in rows])


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("kind", ["text", "molecules"])
def test_a_head_of_transformers(head, kind, folders, save_checkpoint, transformers, trained, tmp_path):
    texts, start = builders.TEXTS[:6], folders["exlm"]
    if kind == "molecules":
        path = save_checkpoint("exlm_base", symbols=builders.dictionary(builders.ATOMS), data=tmp_path)
        builders.write_dictionary(tmp_path, builders.ATOMS)
        texts, start = SMILES, export(path, tmp_path / "start")
    settings, labels = HEADS[head]
    texts = (texts * 2)[:6]
    folder = trained(start, texts, labels, tmp_path / "trained", **settings)
    names, expected = by_pipeline(transformers, folder, texts)
    model = load_model(folder)
    assert list(model.outputs.names) == names
    np.testing.assert_allclose([row for row, _ in model.predict(texts)], expected, rtol=1e-4, atol=1e-5)
    back = load_model(save(restore(folder), tmp_path / "back" / "back.pt"))
    found = [row for row, _ in back.predict(texts)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_head_without_a_loss_is_read_as_the_first_one_would_record():
    assert [Outputs.of_config({}, count).problem for count in (1, 2)] == [REGRESSION, CLASSES]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_exported_properties_trained_on_others(problem, save_checkpoint, transformers, trained, tmp_path):
    """Of another kind, names and scale."""
    path = molecule_checkpoint(save_checkpoint, "regression", ("logS", "mp"), (-2.5, 310.0), (1.5, 40.0))
    labels = {"single_label_classification": [0, 1, 1, 0, 1, 1]}.get(problem, [[1.0, 0.0]] * 6)
    about = {"problem_type": problem, "id2label": {0: "toxic", 1: "soluble"}}
    folder = trained(export(path, tmp_path / "first"), SMILES, labels, tmp_path / "second", **about)
    model, (names, expected) = load_model(folder), by_pipeline(transformers, folder, SMILES)
    assert list(model.outputs.names) == names == ["toxic", "soluble"]
    np.testing.assert_allclose([row for row, _ in model.predict(SMILES)], expected, rtol=1e-4, atol=1e-5)
    again = json.loads((export(folder, tmp_path / "third") / "config.json").read_text())
    assert again["problem_type"] == problem and again["id2label"] == {"0": "toxic", "1": "soluble"}
    again["fairseq"]["properties"]["allow_valence"] = True
    again["id2label"] = {"0": "a", "1": "b"}  # still read as the first ones were
    (tmp_path / "third" / "config.json").write_text(json.dumps(again))
    assert load_model(tmp_path / "third").allow_valence


@pytest.mark.parametrize(("arch", "copies"), [("exlm_base", 1), ("p_roberta_base", 3)])
def test_one_limit_of_length(arch, copies, save_checkpoint, corpus, load, tmp_path):
    """Of a fine-tuning on 12 tokens: predicted, and cut by transformers' tokenizer; test_evaluate.py has how
    it is scored."""
    task = {"_name": "glue", "max_positions": 12 * copies, "repeat_times": copies, "num_classes": 3}
    path = save_checkpoint(arch, GLUE, task, heads=[("classification", "glue", 3)])
    folder, text = export(path, tmp_path / "model", data=corpus), "good " * 30
    tokenizer, theirs = load("AutoTokenizer", folder), load("AutoModelForSequenceClassification", folder)
    inputs, pair = (tokenizer(*x, truncation=True, return_tensors="pt") for x in ([text], [text, text]))
    assert inputs["input_ids"].shape == pair["input_ids"].shape == (1, 12)
    assert theirs.eval()(**pair).logits.isfinite().all()
    expected = theirs(**inputs).logits.softmax(-1)[0].detach()
    for model in (load_model(path, data=corpus), load_model(folder)):
        assert model.encode("good " * 10)[0].numel() == 12 * copies
        [(values, remark)] = model.predict([text])
        assert values is None and "12 are read at most" in remark
        model.truncate = True
        [(values, _)] = model.predict([text])
        np.testing.assert_allclose(values, expected, atol=1e-5)
