"""fairseq's hub interface: what a fairseq user types first, offline, for every model."""

import json
import sys

import pytest
import torch

from fs_plugins.analysis.masked_prediction import MaskedPredictor
from fs_plugins.data.property_info import PropertyInfo, fingerprint
from fs_plugins.models.exlm import ExLMModel
from tests import builders
from tests.builders import write_gpt2

WORDS = ["this", "is", "good", "bad", "news", ",", "I", "am", "glad", "."]
ATOMS = ["C", "N", "O", "(", ")", "=", "1"]
MODELS = {
    "exlm": ("exlm_base", "nat_dag_loss_mlm", {"ext_state_num": 3}),
    "sparse": (
        "exlm_base",
        "nat_dag_loss_mlm",
        {"ext_state_num": 2, "state_graph": "sparse", "rope_dimensions": 1, "expand_from_layer": 1},
    ),
    "ctc": ("exlm_base", "nat_ctc_loss_mlm", {"ext_state_num": 3}),
    "mlm": ("p_roberta_base", "masked_lm", {}),
    "repeated": ("p_roberta_base", "masked_lm", {"repeat_times": 3}),
}


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setitem(sys.modules, "requests", None)  # fairseq imports it only to download


@pytest.fixture
def saved(tmp_path):
    """saved(kind or its parts, words, ...) -> the class of the model; its checkpoint is tmp_path/model.pt."""

    def save(kind, words=WORDS, *, task="masked_lm", criterion=None, data=None, head=None, task_state=None):
        arch, trained_by, flags = MODELS[kind]
        flags = {**builders.SMALL, **flags}
        times = flags.pop("repeat_times", 1)
        task = "repeated_masked_lm" if times > 1 else task
        symbols, folder = builders.dictionary(words), data or tmp_path
        folder.mkdir(exist_ok=True)
        (folder / "dict.txt").write_text("".join(f"{word} 1\n" for word in words), encoding="utf-8")
        model = builders.model(arch, symbols, **flags)
        if head:
            model.register_classification_head(*head)
        with torch.no_grad():  # far from uniform
            model.encoder.lm_head.layer_norm.weight.mul_(5.0)
        task = {"_name": task, "data": str(folder), **({"repeat_times": times} if times > 1 else {})}
        criterion = criterion or {"_name": trained_by}
        path, flags = tmp_path / "model.pt", {"arch": arch, **flags}
        builders.save_checkpoint(path, model, flags, task, criterion, task_state=task_state or {})
        return type(model)

    return save


@pytest.fixture
def hub(saved, tmp_path):
    """hub(kind) -> the interface of a model of words between blanks."""
    return lambda kind: saved(kind).from_pretrained(str(tmp_path))


def test_encode_and_decode(hub):
    hub = hub("exlm")
    index = hub.task.source_dictionary.index
    assert hub.encode("this is good").tolist() == [0, index("this"), index("is"), index("good"), 2]
    pair = hub.encode("this is good", "news .")
    assert pair.tolist() == [*hub.encode("this is good").tolist(), 2, index("news"), index("."), 2]
    assert len(hub.encode("this is good", "news .", no_separator=True)) == len(pair) - 1
    assert hub.decode(pair) == ["this is good", "news ."]
    assert hub.decode(hub.encode("I am <mask> .")) == "I am <mask> ."


@pytest.mark.parametrize("kind", MODELS)
@torch.no_grad()
def test_features_have_one_row_for_each_token(kind, hub):
    hub = hub(kind)
    tokens = hub.encode("this is good , I am <mask>")
    features = hub.extract_features(tokens)
    assert features.shape == (1, 9, 32)
    times = MODELS[kind][2].get("repeat_times", 1)
    expected, _ = hub.model.token_features(tokens[None].repeat_interleave(times, dim=1))
    assert torch.equal(features, expected[:, ::times])
    hiddens = hub.extract_features(tokens, return_all_hiddens=True)
    assert [tuple(hidden.shape) for hidden in hiddens] == [(1, 9, 32)] * 3
    embedded = hub.model.encoder.sentence_encoder.embed_tokens(tokens)
    assert torch.equal(hiddens[0][0], embedded)  # each in its own row


@pytest.mark.parametrize("kind", MODELS)
def test_masks_are_filled_as_the_probe_does(kind, hub):
    hub = hub(kind)
    times = MODELS[kind][2].get("repeat_times", 1)
    for text in ("this is <mask> news", "<mask> am <mask> <mask> ."):
        tokens = hub.encode(text)[None]
        masked = tokens == hub.task.source_dictionary.index("<mask>")
        predictor = MaskedPredictor(hub.model, copies=times, ctc=kind == "ctc")
        expected = predictor.token_log_probs(tokens, masked)
        found = hub.mask_log_probs(tokens[0])
        assert found.shape == (text.count("<mask>"), len(WORDS) + 5)
        torch.testing.assert_close(found.exp(), expected.exp(), rtol=1e-4, atol=1e-6)
    filled = hub.fill_mask("this is <mask> news", topk=3)
    probabilities = hub.mask_log_probs(hub.encode("this is <mask> news"))[0].exp()
    for text, probability, word in filled:
        assert text == f"this is {word} news"
        assert probability == pytest.approx(float(probabilities[hub.task.source_dictionary.index(word)]))
    assert [p for _, p, _ in filled] == probabilities.topk(3).values.tolist()


def test_one_mask_at_a_time(hub):
    hub = hub("exlm")
    with pytest.raises(ValueError, match="2 masks in .*give one, or use mask_log_probs"):
        hub.fill_mask("<mask> is <mask>")
    with pytest.raises(ValueError, match="no <mask> in 'this'"):
        hub.fill_mask("this")
    with pytest.raises(ValueError, match="300 tokens, the model reads up to 256"):
        hub.extract_features(torch.full((1, 300), 5))


def test_gpt2s_bpe_is_taken_from_the_data_folder(saved, tmp_path):
    bpe = write_gpt2(tmp_path / "data", [("t", "h"), ("i", "s"), ("Ġ", "is")])
    size = len(json.loads((tmp_path / "data" / "encoder.json").read_text()))
    saved("exlm", [str(i) for i in range(size)], data=tmp_path / "data")
    text = "this is <mask>, isn't it"
    for options in (
        {"data_name_or_path": str(tmp_path / "data")},
        {"data_name_or_path": "./data", "bpe": "gpt2"},
        {"bpe": str(tmp_path / "data")},
        {"bpe": [str(bpe / "encoder.json"), str(bpe / "vocab.bpe")]},
    ):
        hub = ExLMModel.from_pretrained(str(tmp_path), "model.pt", **options)
        assert hub.decode(hub.encode(text)) == text
        filled, _, word = hub.fill_mask(text, topk=1)[0]
        assert filled == text.replace(" <mask>", word)


def test_molecules(saved, tmp_path):
    """A fine-tuned checkpoint, with its data."""
    symbols, folder = builders.dictionary(ATOMS), tmp_path / "data"
    info = PropertyInfo("classification", ("toxic", "soluble"), (0.0, 0.0), (1.0, 1.0))
    criterion = {"_name": "molecule_property", "classification_head_name": "property"}
    state = {"molecule_property": {**info.to_dict(), "symbols": symbols.symbols}}
    options = {"task": "molecule_property", "criterion": criterion, "data": folder, "task_state": state}
    saved("exlm", ATOMS, head=("property", 2), **options)
    described = {"version": 1, **info.to_dict(), "dictionary": fingerprint(symbols.symbols)}
    (folder / "molecules.json").write_text(json.dumps(described))
    hub = ExLMModel.from_pretrained(str(tmp_path), "model.pt", str(folder))
    tokens = hub.encode("CC(=O)N")
    assert hub.decode(tokens) == "CC(=O)N" and len(tokens) == 9
    assert hub.extract_features(tokens).shape == (1, 9, 32)
    assert hub.predict("property", tokens, return_logits=True).shape == (1, 2)
    filled, _, atom = hub.fill_mask("CC<mask>", topk=1)[0]
    assert filled == f"CC{atom}"
    with pytest.raises(ValueError, match="no SMILES token begins with 'x'"):
        hub.encode("Cx")
