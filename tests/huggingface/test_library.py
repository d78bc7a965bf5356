"""Exported models in the tools of transformers and its companions, and what they refuse."""

import export_huggingface
import pytest
import torch

from fs_plugins.checkpoint import load_checkpoint
from fs_plugins.huggingface.export import export
from fs_plugins.huggingface.restore import restore, save
from tests.support import builders
from tests.support.builders import KINDS, TEXTS, WORDS


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_sentence_transformers(pooling, checkpoints, load, tmp_path):
    from sentence_transformers import SentenceTransformer

    folder = export(checkpoints["exlm"], tmp_path / "export", pooling=pooling)
    encoder = SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
    vectors = torch.tensor(encoder.encode(TEXTS))
    tokens = load("AutoTokenizer", folder)(TEXTS, return_tensors="pt", padding=True)
    rows, mask = load("AutoModel", folder).eval()(**tokens)[0], tokens["attention_mask"][..., None]
    expected = rows[:, 0] if pooling == "first" else (rows * mask).sum(1) / mask.sum(1)
    torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-5)


def test_refusals(folders, load):
    model, tokens = load("AutoModelForMaskedLM", folders["exlm"]), torch.tensor([[0, 5, 6, 2]])
    for named, inputs in (
        ("inputs_embeds", {"inputs_embeds": torch.zeros(1, 3, 32)}),
        ("padding_side", {"input_ids": torch.tensor([[1, 0, 5, 2]])}),
        ("padding_side", {"input_ids": tokens, "attention_mask": torch.tensor([[1, 0, 1, 1]])}),
        ("lacks <s>", {"input_ids": tokens[:, 1:]}),
        ("92 .* 276", {"input_ids": torch.tensor([[0] + 90 * [20] + [2]])}),
    ):
        with pytest.raises(ValueError, match=named):
            model(**inputs)
    rows, floats = tokens.repeat(3, 1), torch.ones(3, 4)
    additive, one_row = floats.log(), torch.ones(1, 4)
    for mask in (one_row, floats[:, :1], floats[0], floats[:, None], additive, additive - 9 * floats.tril()):
        with pytest.raises(ValueError, match=r"attention_mask has to be \[B, T\]"):
            model(rows, attention_mask=mask)
    for mask in (floats, floats.bool(), floats.long()):
        assert torch.equal(model(rows, attention_mask=mask).logits, model(rows).logits)
    with pytest.raises(ValueError, match=r"labels has to be \[B, T\]"):
        model(rows, labels=tokens)
    for named, wrong in (("labels has the id 999,", 999), ("labels has the id -1,", -1)):
        with pytest.raises(IndexError, match=named):
            model(tokens, labels=torch.tensor([[-100, wrong, 6, -100]]))
    model._is_replica = True  # DataParallel's
    assert {*model.train()(tokens, labels=tokens)} == {"loss"} and {*model.eval()(tokens)} == {"logits"}
    settings = {"num_labels": 2, "problem_type": "regression"}
    model = load("AutoModelForSequenceClassification", folders["mlm"], **settings)
    with pytest.raises(ValueError, match=r"labels have to be \[B, labels\]"):
        model(rows, labels=torch.zeros(2, 3))
    assert model(rows, labels=torch.ones(3, 2)).loss > 0


@pytest.mark.parametrize("kind", ["exlm", "repeated", "sparse", "lattice", "ctc"])
def test_longer_than_the_positions(kind, folders, load):
    """Of the encoder, too, wherever it expands tokens; padding does not count."""
    tokenizer, model = load("AutoTokenizer", folders[kind]), load("AutoModel", folders[kind]).eval()
    assert model.config.max_position_embeddings == 256
    longest = {"repeated": 85, "sparse": 252}.get(kind, 248)  # of pairs
    assert tokenizer.model_max_length == longest
    fits = tokenizer("good " * 300, truncation=True, return_tensors="pt")
    padded = tokenizer.pad(dict(fits), padding="max_length", max_length=320)
    rows = model(**padded).last_hidden_state[:, :longest]
    torch.testing.assert_close(rows, model(**fits).last_hidden_state, rtol=0, atol=1e-5)
    pair = tokenizer("good " * 200, "very bad " * 200, truncation=True, return_tensors="pt")
    assert pair["input_ids"].shape == (1, longest) and model(**pair).last_hidden_state.isfinite().all()
    for words in ("good " * 300, "good " * 100 + "<mask> " * 100):
        with pytest.raises(ValueError, match="max_length"):
            model(**tokenizer(words, return_tensors="pt"))


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_added_and_vocabulary_padded(kind, folders, load, tmp_path):
    """And saved and loaded again, by fairseq too: the ids stay what they were, and new ones come after
    ``<mask>``. One of these has an output matrix of its own."""
    tokenizer, model = load("AutoTokenizer", folders[kind]), load("AutoModelForMaskedLM", folders[kind])
    old = tokenizer("this is <mask> .", return_tensors="pt")
    before = model.eval()(**old).logits[0, 3]
    tokenizer.add_tokens(["<drug>"])
    inputs = tokenizer("this is <drug> <mask> .", return_tensors="pt")
    with pytest.raises(IndexError, match="21.*resize_token_embeddings"):
        model(**inputs)
    model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=8)
    decoder, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    assert decoder.bias.shape == (24,) and model.config.vocab_size == decoder.out_features == 24
    assert (decoder.weight is embedding.weight) == (kind != "sparse")
    after = model(**old).logits[0, 3]
    taken = after.softmax(-1)[21:].sum().item()  # by the new tokens, more of some states than of others
    assert taken < 0.2
    torch.testing.assert_close(after[:21].softmax(-1), before.softmax(-1), rtol=0, atol=taken + 1e-6)
    assert model(**inputs, labels=inputs["input_ids"]).loss.isfinite()
    logits = model(**inputs).logits
    assert logits.shape == (1, 7, 24)
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path)
    again = load("AutoModelForMaskedLM", tmp_path).eval()
    assert torch.equal(again(**inputs).logits, logits)
    for loaded in (restore(tmp_path), load_checkpoint(save(restore(tmp_path), tmp_path / "back" / "a.pt"))):
        symbols = loaded.dictionary.symbols
        assert symbols[:22] == [*builders.dictionary(WORDS).symbols, "<drug>"] and len(symbols) == 24
        assert torch.equal(loaded.model.encoder.sentence_encoder.embed_tokens.weight, embedding.weight)


NAN = float("nan")


@pytest.mark.parametrize(
    ("auto", "kind", "labels"),
    [
        ("MaskedLM", "mlm", {"labels": [[-100] * 4]}),
        ("MaskedLM", "repeated", {"labels": [[-100] * 4]}),
        ("SequenceClassification", "exlm", {"labels": [[NAN, NAN]]}),
        ("SequenceClassification", "mlm", {"labels": [-100]}),
        ("TokenClassification", "exlm", {"labels": [[-100] * 4]}),
        ("QuestionAnswering", "exlm", {"start_positions": [9], "end_positions": [4]}),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_a_batch_without_labels_costs_nothing(auto, kind, labels, training, folders, load):
    model = load(f"AutoModelFor{auto}", folders[kind]).train(training)
    given = {name: torch.tensor(values) for name, values in labels.items()}
    loss = model(torch.tensor([[0, 5, 8, 2]]), **given).loss
    loss.backward()
    assert loss == 0
    assert not model.get_input_embeddings().weight.grad.any()


@pytest.mark.parametrize("kind", ["exlm", "lattice", "ctc", "repeated"])
def test_other_precisions(kind, folders, load):
    """float64 gives float32's numbers; half precision marginals that are float32 and sum to 1."""
    tokens = torch.tensor([[0, 5, 20, 6, 20, 2], [0, 20, 7, 2, 1, 1]])
    labels, masks = torch.where(tokens == 20, 7, -100), tokens == 20
    model = load("AutoModelForMaskedLM", folders[kind]).eval()
    single = model(tokens, labels=labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = model(tokens).logits[masks]
    for found in (cast, model.bfloat16()(tokens).logits[masks]) if kind != "repeated" else ():
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.exp(), single.logits[masks].exp(), rtol=0, atol=0.05)
        torch.testing.assert_close(found.exp().sum(-1), torch.ones(len(found)), rtol=0, atol=1e-3)
    double = load("AutoModelForMaskedLM", folders[kind]).eval().double()(tokens, labels=labels)
    assert double.loss.dtype == double.logits.dtype == torch.float64
    torch.testing.assert_close(double.loss.float(), single.loss, rtol=1e-5, atol=0)
    torch.testing.assert_close(double.logits.float()[masks], single.logits[masks], rtol=1e-4, atol=1e-4)


# one text of a pair, one that was cut; shorter than the longest with all its states
EXPORTED = torch.tensor([[0, 5, 8, 6, 2, 2, 9, 10, 2], [0, 7, 2, *[1] * 6], [0, *range(5, 13)]])
MASKED = torch.tensor([[0, 20, 20, 20, 2], [0, 20, 20, 2, 1]])  # the first has no room for its states


@pytest.mark.slow
@pytest.mark.parametrize(
    ("auto", "kind"),
    [
        ("ModelForSequenceClassification", "exlm"),
        *(("ModelForMaskedLM", kind) for kind in ("mlm", "repeated")),
        *(("Model", kind) for kind in ("sparse", "lattice")),
    ],
)
def test_onnx(auto, kind, folders, load, tmp_path):
    """As --onnx exports them, for texts of any number and length; what has no room for its states is NaN."""
    pytest.importorskip("onnxscript", reason="onnxscript is not installed (pip)")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (pip)")
    torch.manual_seed(1)
    load(f"Auto{auto}", folders[kind]).save_pretrained(tmp_path / "trained")
    load("AutoTokenizer", folders[kind]).save_pretrained(tmp_path / "trained")
    words = [tmp_path / "trained", tmp_path / "onnx", "--onnx"]
    assert export_huggingface.main([*map(str, words)]) == 0
    model = load(f"Auto{auto}", tmp_path / "onnx").eval()
    session = runtime.InferenceSession(str(tmp_path / "onnx" / "model.onnx"))
    for tokens in (EXPORTED, *([MASKED] if auto == "Model" else [])):
        mask = (tokens != 1).long()
        [rows] = session.run(None, {"input_ids": tokens.numpy(), "attention_mask": mask.numpy()})
        rows, expected = torch.tensor(rows), model(tokens, attention_mask=mask)[0]
        kept = mask.bool() if expected.dim() == 3 else torch.ones(len(mask), dtype=torch.bool)
        if tokens is MASKED:
            assert rows[0].isnan().all()
            kept[0] = False
        torch.testing.assert_close(rows[kept], expected[kept], rtol=1e-4, atol=1e-5)
