"""Offsets against the bytes of the tokens, what is written and read back, and what is refused."""

from pathlib import Path

import numpy as np
import prepare_squad
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lib.data.bpe import TextEncoder, dictionary_of
from tokenizers import pre_tokenizers
from train_bpe import train_tokenizer

from fs_plugins.data.text_codecs import read_bpe
from fs_plugins.finetuning.squad.data import load_split
from tests.support.builders import BYTE_OF_LETTER, write_file
from tests.support.squad import CONTEXT, question, squad_json

TEXTS = [CONTEXT, "naïve café, 漢字 and 😀 and e\u0301", "two  blanks\n\nand\u3000a wide one, \u200b none"]


def train_bpe(folder, prefix_space):
    tokenizer = train_tokenizer([*TEXTS, *TEXTS], 300)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def encoder_of(folder):
    (folder / "dict.txt").write_text(dictionary_of(read_bpe(folder)), encoding="utf-8")
    return TextEncoder(read_bpe(folder), folder / "dict.txt")


@pytest.fixture(scope="module")
def bpe_folder(tmp_path_factory):
    folder = train_bpe(tmp_path_factory.mktemp("bpe"), prefix_space=False)
    encoder_of(folder)  # writes its dictionary
    return folder


@pytest.fixture(scope="module", params=["gpt2 files", "tokenizer.json", "with a blank before the text"])
def encoder(request, bpe_folder, tmp_path_factory):
    if request.param == "tokenizer.json":
        return encoder_of(bpe_folder)
    folder = tmp_path_factory.mktemp("other")
    if request.param == "gpt2 files":
        for path in map(Path, read_bpe(bpe_folder).tokenizer.model.save(str(folder))):
            path.rename(folder / {"vocab.json": "encoder.json", "merges.txt": "vocab.bpe"}[path.name])
    else:
        train_bpe(folder, prefix_space=True)
    return encoder_of(folder)


def offsets_by_bytes(text, tokens):
    """Walks through the text's bytes: a token is of every character that it has a byte of, blanks aside."""
    owner = [i for i, character in enumerate(text) for _ in character.encode("utf-8")]
    at, found = 0, []
    for n, token in enumerate(tokens):
        size = len(token)
        if n == 0 and BYTE_OF_LETTER[token[0]] == 32 and not text.startswith(" "):
            size -= 1  # the blank that the tokenizer put before the text
        characters = owner[at : at + size]
        at += size
        inside = [i for i in characters if not text[i].isspace()]
        found.append((inside[0], inside[-1] + 1) if inside else None)
    assert at == len(owner)
    return found


TEXT = st.text(st.sampled_from("ab '’é漢😀\u0301\u3000\u200b\n\t.\"“"), max_size=30)


@settings(deadline=None, max_examples=100)
@given(text=TEXT)
def test_offsets_equal_counting_bytes(encoder, text):
    ((ids, offsets),) = encoder.encode_with_offsets([text], [""])
    assert ids.tolist() == encoder.encode([text], [""])[0].tolist()
    expected = offsets_by_bytes(text, encoder.tokenizer.encode(text).tokens)
    assert offsets.shape == (len(ids), 2) and offsets.dtype == np.int32
    for (begin, end), truth in zip(offsets.tolist(), expected, strict=True):
        assert (begin, end) == truth if truth else begin == end


def test_written_and_read_back(tmp_path, bpe_folder, capsys):
    text, context = "Rollo’s 漢字", TEXTS[1] + " 911"
    asked = question(), question("q2", ()), question("q3", [("1066", 0)])
    train = write_file(tmp_path / "a.json", squad_json(*asked))
    valid = write_file(tmp_path / "b.json", squad_json(question(question=f" {text} "), context=context))
    encoder, out = encoder_of(bpe_folder), tmp_path / "out"
    words = (out, "--data", bpe_folder, "--train", train, "--valid", valid)
    assert prepare_squad.main([*map(str, words)]) == 0
    assert "1 question with an answer not at its answer_start" in capsys.readouterr().out
    split = load_split(out, "valid")
    assert split.squad.contexts == [context] and split.squad.questions[0].text == f" {text} "
    ids, offsets = encoder.encode_with_offsets(split.squad.contexts, [""])[0]
    assert np.array_equal(split.context_tokens[0], ids)
    assert np.array_equal(split.context_offsets[0], offsets)
    assert np.array_equal(split.question_tokens[0], encoder.encode([text], [""])[0])
    found = load_split(out, "train").squad
    assert [answer.start for q in found.questions for answer in q.answers] == [15, -1]
    assert found.misplaced == ["q3"]


def test_another_folder_is_not_overwritten(tmp_path, bpe_folder, refused):
    good, out = write_file(tmp_path / "a.json", squad_json(question())), tmp_path / "out"
    kept = write_file(out / "dict.txt", "of a pre-training\n")
    again = (out, "--data", bpe_folder, "--train", good, "--overwrite")
    assert "out exists" in refused(prepare_squad.main, *again) and kept.exists()
