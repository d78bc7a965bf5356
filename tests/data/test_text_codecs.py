"""Sentences with masks, in symbols of the dictionary and back."""

import json
from pathlib import Path

import pytest
import train_bpe

from fs_plugins.data.text_codecs import (
    Blanks,
    Gpt2Bpe,
    HfTokenizer,
    Smiles,
    encode_with_masks,
    make_codec,
    smiles_form,
)
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


def test_symbols_between_blanks():
    codec = Blanks()
    assert encode_with_masks("C C <mask> N", codec) == ["C", "C", "<mask>", "N"]
    assert encode_with_masks("<mask><mask> C <mask>", codec) == ["<mask>", "<mask>", "C", "<mask>"]
    assert codec.decode(["C", "C", "N"]) == "C C N"
    assert codec.word("Cl") == "Cl"


def test_smiles():
    codec = Smiles()
    assert encode_with_masks("C[C@@H]<mask>Cl", codec) == ["C", "[C@@H]", "<mask>", "Cl"]
    assert codec.decode(["C", "[C@@H]", "<mask>", "Cl"]) == "C[C@@H]<mask>Cl"
    assert codec.word("Cl") == "Cl"
    with pytest.raises(ValueError, match="no SMILES token begins with 'x' at position 1 of 'Cx'"):
        encode_with_masks("Cx<mask>", codec)


def test_gpt2_bpe_masks_take_their_blank(small_gpt2):
    codec = Gpt2Bpe(small_gpt2 / "encoder.json", small_gpt2 / "vocab.bpe")
    ids = json.loads((small_gpt2 / "encoder.json").read_text())
    is_, a, comma = (str(ids[symbol]) for symbol in ("Ġis", "a", ","))
    assert codec.encode("a is", True) == [a, is_]
    assert encode_with_masks("a <mask>, is", codec) == [a, "<mask>", comma, is_]
    assert encode_with_masks("<mask> is", codec) == ["<mask>", is_]
    assert encode_with_masks("<mask> <mask>", codec) == ["<mask>"] * 2
    assert encode_with_masks("a  <mask>", codec) == [a, "<mask>"]
    assert codec.decode([a, is_, "<mask>", comma]) == "a is <mask>,"
    assert [codec.word(s) for s in (is_, a, comma, "<unk>", "madeupword0000")] == [
        *("is", "##a", ",", "<unk>", "madeupword0000")
    ]


def test_hf_tokenizer_encodes_around_masks_as_the_whole_sentence(tokenizer_json):
    codec = HfTokenizer(tokenizer_json)
    for sentence, masked, words in (
        (LINES[0], "<mask> is <mask>, and I'm very happy to see this.", ("ĠThis", "Ġgreat")),
        (LINES[1], "I see that this <mask> <mask> good news.", ("Ġis", "Ġvery")),
    ):
        whole = codec.encode(sentence, True)
        assert set(words) <= set(whole)
        assert encode_with_masks(masked, codec) == ["<mask>" if s in words else s for s in whole]
        assert codec.decode(whole).strip() == sentence
    assert codec.word("Ġthis") == "this"
    assert codec.word("g") == "##g"
    assert codec.word(",") == "," and codec.word("Ġ") == "␣"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no blank to fill", "no <mask> in 'no blank to fill'"),
        ("this is [MASK].", r"write it <mask>, not \[MASK\]"),
        ("<s> <mask>", "<s> in .* leave them out"),
        ("<mask> </s>", "</s> in .* leave them out"),
    ],
)
def test_texts_that_cannot_be_filled(text, says):
    with pytest.raises(ValueError, match=says):
        encode_with_masks(text, Blanks())


def test_codec_is_found_beside_the_dictionary(tokenizer_json, small_gpt2, tmp_path):
    symbols = builders.dictionary()
    data = tokenizer_json.parent / "data-bin"
    data.mkdir()
    assert make_codec(None, data, symbols).name == "tokenizer.json"
    assert make_codec(None, small_gpt2, symbols).name == "gpt2"
    assert make_codec(None, tmp_path, symbols).name == "none"
    assert make_codec("none", data, symbols).name == "none"
    assert make_codec(str(small_gpt2), data, symbols).name == "gpt2"
    assert make_codec([small_gpt2 / "encoder.json", small_gpt2 / "vocab.bpe"], data, symbols).name == "gpt2"
    assert make_codec([str(tokenizer_json)], tmp_path, symbols).name == "tokenizer.json"


def test_folders_of_smiles_say_so(tmp_path):
    smiles, text = (
        builders.smiles_folder(tmp_path / "smiles", "as-given"),
        builders.text_folder(tmp_path / "text"),
    )
    assert (smiles_form(smiles), smiles_form(text), smiles_form(tmp_path)) == ("as-given", None, None)
    symbols = builders.dictionary()
    assert make_codec(None, smiles, symbols).name == make_codec("smiles", text, symbols).name == "smiles"
    assert make_codec("none", smiles, symbols).name == make_codec(None, tmp_path, symbols).name == "none"


def test_codecs_that_are_not_there(tokenizer_json, small_gpt2, tmp_path):
    tokens = builders.dictionary([f"{'Ġ' * (i % 3 == 0)}w{i}" for i in range(100)])
    ids = builders.dictionary([str(i) for i in range(2000)])
    vocab = json.loads((small_gpt2 / "encoder.json").read_text())
    (tmp_path / "vocab.json").write_text(json.dumps({**vocab, "<mask>": len(vocab)}))
    roberta = [tmp_path / "vocab.json", small_gpt2 / "vocab.bpe"]
    for source, symbols, says in (
        (
            [str(tmp_path / "nothing.json")],
            tokens,
            "nothing.json does not exist: a BPE is encoder.json and vocab.bpe, or",
        ),
        (roberta, ids, "has <mask>: it is a vocab.json of HF"),
        ([str(tmp_path)], tokens, "has no BPE .encoder.json and vocab.bpe, or"),
        ([small_gpt2 / "encoder.json", tmp_path / "nothing.bpe"], tokens, "nothing.bpe does not exist"),
        ([str(small_gpt2 / "encoder.json")], tokens, "is not a tokenizer.json"),
        (["a", "b", "c"], tokens, "--bpe takes"),
        (None, tokens, "tokens of a BPE for symbols, such as 'Ġw99'.*--bpe tokenizer.json"),
        (None, ids, "GPT-2 BPE ids.*--bpe encoder.json vocab.bpe"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=says):
            make_codec(source, tmp_path, symbols)
