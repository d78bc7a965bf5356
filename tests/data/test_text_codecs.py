"""Symbols and their text; tests/huggingface/test_tokenizers.py compares the codecs' ids with transformers."""

import json
from pathlib import Path

import pytest
import train_bpe

from fs_plugins.data import text_codecs
from fs_plugins.data.text_codecs import Blanks, ByteBpe, Smiles, make_codec, smiles_form
from fs_plugins.data.vocabulary import read_dictionary
from tests.support import builders

LINES = ["This is great, and I'm very happy to see this.", "I see that this is very good news."] * 3


@pytest.fixture(scope="module")
def tokenizer_json(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    train_bpe.train_tokenizer(LINES, 400).save(str(path))
    return path


@pytest.fixture(scope="module")
def small_gpt2(tmp_path_factory) -> Path:
    return builders.write_gpt2(tmp_path_factory.mktemp("gpt2"), [("i", "s"), ("Ġ", "is")])


def test_text_of_symbols_and_words_to_show(tokenizer_json, small_gpt2):
    assert Blanks().decode(["C", "C", "N"]) == "C C N"
    assert Smiles().decode(["C", "<mask>", "Cl"]) == "C<mask>Cl"
    assert Blanks().word("Cl") == Smiles().word("Cl") == "Cl"
    gpt2, whole = ByteBpe(*(small_gpt2 / name for name in text_codecs.GPT2_FILES)), ByteBpe(tokenizer_json)
    ids = json.loads((small_gpt2 / "encoder.json").read_text())
    is_, a, comma = (str(ids[symbol]) for symbol in ("Ġis", "a", ","))
    assert gpt2.decode([a, is_, "<mask>", comma]) == "a is <mask>,"
    symbols = is_, a, comma, "<unk>", "madeupword0000"
    assert [*map(gpt2.word, symbols)] == ["is", "a", ",", "<unk>", "madeupword0000"]
    assert [*map(whole.word, ("Ġthis", "g", ",", "Ġ"))] == ["this", "g", ",", "Ġ"]
    for line in LINES:
        assert whole.decode(whole.encode(line, True)).strip() == line


def test_texts_that_cannot_be_filled():
    with pytest.raises(ValueError, match="<s>"):
        text_codecs.encode_with_masks("<s> <mask>", Blanks())
    with pytest.raises(ValueError, match="write it <mask>"):
        text_codecs.encode_with_masks("this is [MASK].", Blanks())


def test_codec_is_found_beside_the_dictionary(tokenizer_json, small_gpt2, tmp_path):
    data, symbols = tokenizer_json.parent / "data-bin", builders.dictionary()
    smiles = builders.smiles_folder(tmp_path / "smiles", "as-given")
    text = builders.text_folder(tmp_path / "text")
    data.mkdir()
    gpt2 = list(text_codecs.GPT2_FILES)
    for source, folder, expected in (
        (None, data, ["tokenizer.json"]),
        (None, small_gpt2, gpt2),
        (None, tmp_path, Blanks),
        ("none", data, Blanks),
        ([str(tokenizer_json)], tmp_path, ["tokenizer.json"]),
        (str(small_gpt2), data, gpt2),
        ([small_gpt2 / name for name in gpt2], data, gpt2),
        (None, smiles, Smiles),
        ("smiles", text, Smiles),
        ("none", smiles, Blanks),
    ):
        codec = make_codec(source, folder, read_dictionary(smiles) if folder is smiles else symbols)
        found = [path.name for path in codec.files] if isinstance(codec, ByteBpe) else type(codec)
        assert found == expected
    assert (smiles_form(smiles), smiles_form(text), smiles_form(tmp_path)) == ("as-given", None, None)
    (tmp_path / "manifest.json").write_text('{"name": "app"}')  # another program's
    assert smiles_form(tmp_path) is None


def test_what_is_no_byte_level_bpe(tokenizer_json, tmp_path):
    content = json.loads(tokenizer_json.read_text())
    (tmp_path / "words.json").write_text(json.dumps(content | {"decoder": None}))
    with pytest.raises(ValueError, match="words.json is no byte-level BPE"):
        make_codec(tmp_path / "words.json", tmp_path, builders.dictionary("ab"))
