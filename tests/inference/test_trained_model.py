"""Embeddings against each text alone, position by position; masks; and both kinds of files."""

import numpy as np
import pytest
import torch

from fs_plugins.huggingface.export import export
from fs_plugins.inference import load
from fs_plugins.measures.masked_samples import load_samples
from tests.huggingface.test_export import GLUE, molecule_checkpoint
from tests.support.builders import KINDS
from tests.support.builders import TEXTS as TEXTS_OF_CORPUS

TEXTS = ["this is good news", "I am", "it is very very good , and I am glad to see it .", "news"]
TEXTS += ["I see <mask> .", "this is good news " * 25]


def alone(model, text, pooling):
    """By the definition: the states of the text's tokens, encoded without padding."""
    dictionary, copies = model.checkpoint.dictionary, model.checkpoint.copies
    ids = [0, *map(dictionary.index, text.split()), 2]
    with torch.no_grad():
        tokens = torch.tensor([ids]).repeat_interleave(copies, 1)
        [states], _ = model.checkpoint.model(tokens, features_only=True)
    assert len(states) == copies * len(ids)
    return states[0] if pooling == "first" else states[copies:-copies].mean(0)


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("kind", ["exlm", "mlm", "repeated"])
def test_each_as_if_alone_and_in_order(save_checkpoint, monkeypatch, kind, pooling):
    """Rotary positions have no weights: samples of 16 tokens in pre-training are no limit afterwards."""
    arch, criterion, flags = KINDS[kind]
    path = save_checkpoint(arch, criterion, max_positions=16, **flags)
    model = load(path, device="cpu", batch_tokens=40)
    monkeypatch.setattr("fs_plugins.inference.trained_model.WINDOW", 3)
    found = list(model.embed(TEXTS, pooling))
    assert [remark for _, remark in found] == [""] * len(TEXTS)
    for text, (vector, _) in zip(TEXTS, found, strict=True):
        assert vector.shape == (model.width,)
        torch.testing.assert_close(torch.from_numpy(vector), alone(model, text, pooling), rtol=0, atol=1e-5)


def test_what_cannot_be_read_costs_no_other(pretrained):
    limit = 50
    model = load(pretrained, device="cpu", max_tokens=limit)
    longest = "good " * (limit - 2)  # with <s> and </s>
    texts = [longest, "", "good <s> news", f"{longest} good", "good weather", float("nan"), None, b"good"]
    found = list(model.embed(texts))
    assert [vector is None for vector, _ in found] == [False, *[True] * 3, False, *[True] * 3]
    assert [bool(remark) for _, remark in found] == [False, *[True] * 7]
    assert found[4][1].endswith("weather")  # an unknown word
    shorter = load(pretrained, device="cpu", max_tokens=limit, truncate=True)
    [(vector, remark)] = shorter.embed("good " * limit)  # a string is one text
    assert vector is not None and str(limit) in remark
    assert shorter.encode("good " * limit)[0].tolist() == model.encode("good " * (limit - 2))[0].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_filled_masks_are_the_most_probable_tokens(kind, checkpoints):
    model = load(checkpoints[kind], device="cpu")
    text, dictionary = "this is <mask> news , <mask> .", model.checkpoint.dictionary
    log_probs, filled = model.log_probs(text), model.fill(text, top=3)
    assert [len(tokens) for tokens in model.fill(text, top=1000).masks] == [len(dictionary) - 5] * 2
    assert log_probs.shape == (2, len(dictionary)) and len(filled.masks) == 2
    ordinary = [i for i in range(4, len(dictionary)) if dictionary[i] != "<mask>"]
    for row, tokens in zip(log_probs.exp(), filled.masks, strict=True):
        best = sorted(ordinary, key=lambda i: -row[i])[:3]
        assert [token.symbol for token in tokens] == [dictionary[i] for i in best]
        assert [token.prob for token in tokens] == pytest.approx(row[best].tolist())
    if not model.predictor.has_transitions:
        first, second = (tokens[0].symbol for tokens in filled.masks)
        assert filled.text == f"this is {first} news , {second} ."


def test_probabilities_of_classes(save_checkpoint, corpus):
    path = save_checkpoint("exlm_base", GLUE, "glue", heads=[("classification", "glue", 3)])
    model = load(path, data=corpus, device="cpu")
    single, pair = [row for row, _ in model.predict(["this is good", ("this is good", "news .")])]
    assert single.shape == (3,) and single.sum() == pytest.approx(1, abs=1e-6)
    words = ["<s>", "this", "is", "good", "</s>", "</s>", "news", ".", "</s>"]
    with torch.no_grad():
        tokens = torch.tensor([[model.checkpoint.dictionary.index(word) for word in words]])
        expected, _ = model.checkpoint.model(tokens, features_only=True, classification_head_name="glue")
    np.testing.assert_allclose(pair, expected[0].softmax(-1), atol=1e-6)
    assert list(model.outputs.names) == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert len([*model.predict(("this is good", "news ."))]) == 2  # a sequence
    for wrong in (("good", "bad", "news"), ()):
        [(row, remark), _] = model.predict([wrong, "news"])
        assert row is None and f"are {len(wrong)} texts" in remark
    [samples] = load_samples(model.checkpoint, count=1)  # of a fine-tuning's data: rows
    assert len(samples) == 2 + len(TEXTS_OF_CORPUS[0].split())


def test_a_pair_is_refused_by_a_model_of_single_sentences(save_checkpoint, corpus, tmp_path):
    """Also by its export."""
    task, heads = {"_name": "glue", "sentences": 1}, [("classification", "glue", 2)]
    path = save_checkpoint("mlm_tiny", GLUE, task, heads=heads)
    for model in (path, export(path, tmp_path / "exported", data=corpus)):
        found = [*load(model, data=corpus, device="cpu").predict([("I am sorry", "bad news"), "very good"])]
        assert [row is not None for row, _ in found] == [False, True]


def test_molecules_are_read_as_in_training(save_checkpoint):
    path = molecule_checkpoint(save_checkpoint, "regression", ("y",), (0.0,), (1.0,))
    assert load(path, device="cpu").symbols("OCC") == ["C", "C", "O"]
    state = torch.load(path)
    state["task_state"]["molecule_property"] |= {"canonical": False, "allow_valence": True}
    state["cfg"]["task"]["tokens_per_molecule"] = 9
    torch.save(state, path)
    model = load(path, device="cpu")
    assert model.symbols("OCC") == ["O", "C", "C"] and model.limit == 9
    assert len(model.symbols("CN(C)(C)(C)C")) == 12
    model.checkpoint.cfg.task.repeat_times = 64  # of the model's 256 positions
    assert model.checkpoint.longest == 4


def test_a_tuple_of_molecules_is_no_pair(save_checkpoint):
    model = load(molecule_checkpoint(save_checkpoint, "regression", ("y",), (0.0,), (1.0,)), device="cpu")
    smiles, _ = zip(("CCN", 1), ("CO", 2), strict=True)
    expected = [row for row, _ in model.predict([*smiles])]
    assert np.array_equal([row for row, _ in model.predict(smiles)], expected)
    for read in (model.predict, model.embed):
        found = read([smiles, [*smiles], "CCN", ("CCN",)])
        assert [row is None for row, _ in found] == [True, True, False, False]
