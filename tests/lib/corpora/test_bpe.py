"""The BPE gives fairseq's GPT-2 ids, and says which file does not belong."""

import random

import numpy as np
import pytest
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from lib.command_line import UserError
from lib.corpora.bpe import Bpe, TextEncoder, UnknownTokenError, dictionary_of, find_files, train_tokenizer

from tests.builders import write_gpt2

AWKWARD = [
    "",
    " ",
    "  two  blanks ",
    "I'm, you've, he'll; WE'RE DON'T",
    "naïve café – “quoted” … 東京 🙂 \u00a0\u2028 x",
    "123456 3.14159 1,000",
    "tab\tand\x07bell",
    "<s> </s> <mask> <|endoftext|>",
    "ÿĀ\u0300e\u0301",
]


@pytest.fixture
def small(tmp_path):
    return write_gpt2(tmp_path / "bpe", [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("Ġ", "in")])


def test_same_ids_as_fairseq_on_random_text(small):
    bpe, oracle = Bpe(small), get_encoder(str(small / "encoder.json"), str(small / "vocab.bpe"))
    rng = random.Random(4)
    texts = ["".join(rng.choice("thein  '\n3é東") for _ in range(rng.randrange(40))) for _ in range(300)]
    assert bpe.encode([*texts, *AWKWARD]) == [oracle.encode(text) for text in [*texts, *AWKWARD]]


@pytest.fixture
def hugging_face(tmp_path):
    tokenizer = train_tokenizer(["the thin thing in the inn"] * 9, 300)
    tokenizer.add_special_tokens(["<s>", "<mask>"])
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=50)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_tokenizer_json_is_not_cut_or_padded_and_text_is_text(hugging_face):
    bpe = Bpe(hugging_face)
    [ids] = bpe.encode(["the thin thing in the <mask> inn"])
    tokens = [bpe.symbols[i] for i in ids]
    assert "".join(tokens).replace("Ġ", " ") == " the thin thing in the <mask> inn"
    assert "<mask>" not in tokens


@pytest.mark.parametrize("kind", ["small", "hugging_face"])
def test_the_dictionary_of_a_bpe_knows_all(kind, request, tmp_path):
    bpe = Bpe(request.getfixturevalue(kind))
    path = tmp_path / "dict.txt"
    path.write_text(dictionary_of(bpe), encoding="utf-8")
    dictionary = Dictionary.load(str(path))
    assert len(dictionary) % 8 == 0
    encoder = TextEncoder(bpe, path)
    for text, ids in zip(AWKWARD, encoder.encode(AWKWARD), strict=True):
        symbols = [bpe.symbols[i] for i in bpe.encode([text])[0]]
        assert [dictionary[int(i)] for i in ids] == symbols


def test_unknown_tokens_are_named_or_counted(small, tmp_path):
    path = tmp_path / "dict.txt"
    bpe = Bpe(small)
    known = [str(i) for i in range(256) if bpe.symbols[i] is not None]
    path.write_text("".join(f"{symbol} 1\n" for symbol in known))
    encoder = TextEncoder(bpe, path)
    with pytest.raises(UnknownTokenError, match="has no token '259', which is in 'in the'") as caught:
        encoder.encode(["a b c", "in the", "the"])
    assert caught.value.index == 1
    lenient = TextEncoder(bpe, path, allow_unknown=True)
    [ids] = lenient.encode(["in the"])
    assert (ids == 3).sum() == lenient.unknown == 2 and ids.dtype == np.int64


def test_a_bpe_of_another_model(small, hugging_face, tmp_path):
    path = tmp_path / "dict.txt"
    path.write_text(dictionary_of(Bpe(small)), encoding="utf-8")
    with pytest.raises(UserError, match="dict.txt, line 11: '10' is not a token of .*tokenizer.json"):
        TextEncoder(Bpe(hugging_face / "tokenizer.json"), path)
    other = write_gpt2(tmp_path / "other", [("q", "u")])
    with pytest.raises(UserError, match=r"line 258: '257' is not a token of .*encoder.json and"):
        TextEncoder(Bpe(other), path)
    with pytest.raises(UserError, match="vocab.bpe are not the files of one BPE: .*`th` out of vocabulary"):
        Bpe([other / "encoder.json", small / "vocab.bpe"])


def test_damaged_files(small, tmp_path):
    with pytest.raises(UserError, match="has no BPE .encoder.json and vocab.bpe, or"):
        find_files(tmp_path)
    with pytest.raises(UserError, match="nowhere does not exist"):
        find_files([tmp_path / "nowhere"])
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(UserError, match="is not a tokenizer.json"):
        Bpe(tmp_path)
    (small / "encoder.json").write_text('{"a": 1, "cut sho')
    with pytest.raises(UserError, match="are not the files of one BPE: .*EOF"):
        Bpe(small)
