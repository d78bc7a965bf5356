"""The BPE gives fairseq's GPT-2 ids, and says which file does not belong."""

import pickle
import random
from argparse import Namespace

import pytest
import train_bpe
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from lib.command_line import UserError
from lib.data import bpe as library
from lib.data.bpe import TextEncoder, dictionary_of

from fs_plugins.data.text_codecs import read_bpe
from fs_plugins.huggingface.export import export
from tests.support import builders

AWKWARD = ["", " ", "  two  blanks ", "I'm, you've, he'll; WE'RE DON'T", "123456 3.14159 1,000"]
AWKWARD += ["naïve café – “quoted” … 東京 🙂 \u00a0\u2028 x", "tab\tand\x07bell", "ÿĀ\u0300e\u0301"]
AWKWARD += ["<s> </s> <mask> <|endoftext|>"]


def encoder_of(folder, path):
    """With all tokens of the BPE; as a worker process gets it."""
    path.write_text(dictionary_of(read_bpe(folder)), encoding="utf-8")
    encoder = pickle.loads(pickle.dumps(TextEncoder(read_bpe(folder), path)))
    return encoder, Dictionary.load(str(path))


def test_same_ids_as_fairseq_on_random_text(bpe, tmp_path):
    encoder, dictionary = encoder_of(bpe, tmp_path / "dict.txt")
    oracle = get_encoder(str(bpe / "encoder.json"), str(bpe / "vocab.bpe"))
    rng = random.Random(4)
    texts = ["".join(rng.choice("thein  '\n3é東") for _ in range(rng.randrange(40))) for _ in range(300)]
    assert len(dictionary) % 8 == 0
    texts += AWKWARD
    for text, ids in zip(texts, encoder.encode(texts, texts), strict=True):
        assert [dictionary[i] for i in ids] == list(map(str, oracle.encode(text)))


def test_a_tokenizer_json_is_not_cut_or_padded_and_text_is_text(tmp_path):
    tokenizer = train_bpe.train_tokenizer(["the thin thing in the inn"] * 9, 300)
    tokenizer.add_special_tokens(["<s>", "<mask>"])
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=50)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    encoder, dictionary = encoder_of(tmp_path, tmp_path / "dict.txt")
    [ids] = encoder.encode(["the thin thing in the <mask> inn"], [""])
    tokens = [dictionary[i] for i in ids]
    assert "".join(tokens).replace("Ġ", " ") == " the thin thing in the <mask> inn"
    assert "<mask>" not in tokens
    assert all((ids >= 4).all() for ids in encoder.encode(AWKWARD, AWKWARD))


def test_a_bpe_of_another_model(bpe, tmp_path):
    path, other = tmp_path / "dict.txt", builders.write_gpt2(tmp_path / "other", [("q", "u")])
    path.write_text(dictionary_of(read_bpe(bpe)), encoding="utf-8")
    with pytest.raises(UserError, match="dict.txt has '257', .*encoder.json and"):
        TextEncoder(read_bpe(other), path)


def test_a_folder_for_transformers_serves_as_the_data_of_its_training(save_checkpoint, tmp_path):
    data = builders.text_folder(tmp_path / "data-bin")
    words = [line.split()[0] for line in (data / "dict.txt").read_text().splitlines()]
    path = save_checkpoint("mlm_tiny", data=data, symbols=builders.dictionary(words))
    folder, texts = export(path, tmp_path / "exported"), ["The quick brown fox, jumps.", "Hello world"]
    asked = {"bpe": None, "dictionary": None, "allow_unknown": None}
    first, second = (library.encoder_of(Namespace(data=place, **asked)) for place in (data, folder))
    assert first.size == second.size
    for ids, same in zip(*(encoder.encode(texts, ["a", "b"]) for encoder in (first, second)), strict=True):
        assert ids.tolist() == same.tolist()
