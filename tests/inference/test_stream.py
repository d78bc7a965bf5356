"""Embeddings of text against each text alone, position by position."""

import numpy as np
import pytest
import torch

from fs_plugins.inference import load_text_model

TEXTS = ["this is good news", "I am", "it is very very good , and I am glad to see it .", "news"]
TEXTS += ["I see <mask> ."]


def alone(model, text, pooling):
    """By the definition: the states of the text, encoded without padding."""
    dictionary, copies = model.checkpoint.dictionary, model.checkpoint.copies
    words = [dictionary.index(word) for word in text.split()]
    ids = [i for i in (0, *words, 2) for _ in range(copies)]
    with torch.no_grad():
        states = model.checkpoint.model(torch.tensor([ids]), features_only=True)[0][0]
    k = model.checkpoint.states or copies  # <s> and </s> are expanded, words are not, but for <mask>
    assert len(states) == 2 * k + copies * len(words) + (k - copies) * words.count(dictionary.index("<mask>"))
    return states[0] if pooling == "first" else states[k:-k].mean(0)


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("kind", ["exlm", "mlm", "repeated"])
def test_each_as_if_alone_and_in_order(pretrained, save_checkpoint, monkeypatch, kind, pooling):
    repeated = {"repeat_times": 3} if kind == "repeated" else {}
    path = pretrained if kind == "exlm" else save_checkpoint("p_roberta_base", **repeated)
    model = load_text_model(path, device="cpu", batch_tokens=40)
    monkeypatch.setattr("fs_plugins.inference.stream.WINDOW", 3)
    found = list(model.embed(TEXTS, pooling))
    assert [remark for _, remark in found] == [""] * len(TEXTS)
    for text, (vector, _) in zip(TEXTS, found, strict=True):
        assert vector.shape == (model.width,)
        torch.testing.assert_close(torch.from_numpy(vector), alone(model, text, pooling), rtol=0, atol=1e-5)


def test_what_cannot_be_read_costs_no_other(pretrained):
    limit = 50
    model = load_text_model(pretrained, device="cpu", max_tokens=limit)
    found = list(model.embed(["I am", "", "good <s> news", "good " * limit, "good weather"]))
    assert [vector is None for vector, _ in found] == [False, True, True, True, False]
    remarks = [remark for _, remark in found]
    assert remarks[1] == "there is no text" and "is given <s> and </s>" in remarks[2]
    assert remarks[3] == f"{limit + 2} tokens with <s> and </s>, {limit} are read at most"
    assert remarks[4] == "unknown tokens weather"
    shorter = load_text_model(pretrained, device="cpu", max_tokens=limit, truncate=True)
    [(vector, remark)] = shorter.embed(["good " * limit])
    assert vector is not None and f"{limit} are read at most" in remark


@pytest.mark.parametrize(
    ("arch", "flags"),
    [("mlm_tiny", {}), ("exlm_tiny", {}), ("mlm_tiny", {"repeat_times": 2})],
    ids=["mlm", "exlm", "repeated"],
)
def test_every_model_reads_the_same_whatever_its_positions(save_checkpoint, arch, flags):
    """Rotary positions have no weights: samples of 16 tokens in pre-training are no limit afterwards."""
    model = load_text_model(save_checkpoint(arch, max_positions=16, **flags), device="cpu")
    text = "this is good news " * 25
    tokens, remark = model.encode(text)
    assert len(tokens) == 102 * model.copies and remark == ""
    (vector, remark), (shorter, _) = model.embed([text, text.rsplit(maxsplit=10)[0]], "mean")
    assert remark == "" and np.isfinite(vector).all()
    assert not np.allclose(vector, shorter, atol=1e-6)
