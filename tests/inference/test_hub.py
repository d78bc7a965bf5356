"""fairseq's hub interface: what a fairseq user types first, offline, for every model."""

import shutil
import sys

import pytest
import torch

from fs_plugins.inference import load
from fs_plugins.models.exlm import ExLMModel
from fs_plugins.models.mlm import RotaryRobertaModel
from tests.support import builders
from tests.support.builders import KINDS, write_gpt2


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setitem(sys.modules, "requests", None)  # fairseq imports it only to download


@pytest.fixture
def hub(checkpoints):
    """hub(kind) -> the interface of a model of words between blanks."""
    return lambda kind: RotaryRobertaModel.from_pretrained(str(checkpoints[kind].parent))


def test_encode_and_decode(hub):
    hub = hub("exlm")
    index = hub.task.source_dictionary.index
    assert hub.encode("this is good").tolist() == [0, index("this"), index("is"), index("good"), 2]
    assert hub.decode(hub.encode("this is good", "news .")) == ["this is good", "news ."]
    assert hub.decode(hub.encode("I am <mask> .")) == "I am <mask> ."
    for named, call in (
        ("2 masks", lambda: hub.fill_mask("<mask> is <mask>")),
        ("'this'", lambda: hub.fill_mask("this")),
        ("300 .* 256", lambda: hub.extract_features(torch.full((1, 300), 5))),
    ):
        with pytest.raises(ValueError, match=named):
            call()


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_row_for_each_token_and_masks_filled_as_load_does(kind, hub, checkpoints):
    hub, model = hub(kind), load(checkpoints[kind], device="cpu")
    tokens = hub.encode("this is good , I am <mask>")
    features = hub.extract_features(tokens)
    assert features.shape == (1, 9, 32)
    times = KINDS[kind][2].get("repeat_times", 1)
    expected, _ = hub.model.token_features(tokens[None].repeat_interleave(times, dim=1))
    assert torch.equal(features, expected[:, ::times])
    hiddens = hub.extract_features(tokens, return_all_hiddens=True)
    assert [tuple(hidden.shape) for hidden in hiddens] == [(1, 9, 32)] * 3
    embedded = hub.model.encoder.sentence_encoder.embed_tokens(tokens)
    assert torch.equal(hiddens[0][0], embedded)  # each in its own row
    filled = hub.fill_mask("this is <mask> news", topk=3)
    probabilities = model.log_probs("this is <mask> news")[0].exp()
    for text, probability, word in filled:
        assert text == f"this is {word} news"
        assert probability == pytest.approx(float(probabilities[hub.task.source_dictionary.index(word)]))
    assert [p for _, p, _ in filled] == probabilities.topk(3).values.tolist()


def test_gpt2s_bpe_is_taken_from_the_data_folder(save_checkpoint, tmp_path):
    bpe = write_gpt2(tmp_path / "data", [("t", "h"), ("i", "s"), ("Ġ", "is")])
    symbols = builders.dictionary([str(i) for i in range(256 + 3)])
    builders.write_dictionary(bpe, symbols.symbols[symbols.nspecial :])
    path = save_checkpoint("exlm_base", symbols=symbols, data=bpe)
    shutil.copy(path, tmp_path)
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
