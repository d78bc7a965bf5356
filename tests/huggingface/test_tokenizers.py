"""Exported tokenizers against the codecs that corpora are written with: the same ids."""

import itertools
import random
from pathlib import Path

import pytest
import torch
import train_bpe
from tokenizers import AddedToken, pre_tokenizers

from fs_plugins import checkpoint
from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.data.text_codecs import Smiles, encode_text, make_codec
from fs_plugins.huggingface.export import export
from tests.support import builders

LINES = [
    "This is great, and I'm very happy to see this.",
    "I see that this is very good news: 12,345 of them, or 3.14?",
    "A naïve café costs €5 — “über” 東京 🙂 e\u0301 שלום.",
    "tabs\tand  two blanks, don't they've WE'LL snake_case CamelCase",
    "a non-breaking\u00a0space, a zero\u200bwidth one\u2026",
]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def texts_with_masks() -> list[str]:
    """Also with masks in the place of words, some of these without their blank."""
    rng, found = random.Random(3), ["<mask>", "<mask> is", "is <mask>", "<mask><mask> <mask>", "x"]
    for line in LINES * 20:
        masked = " ".join(word if rng.random() > 0.15 else "<mask>" for word in line.split())
        found += [line, masked if rng.random() > 0.2 else masked.replace(" <mask>", "<mask>", 1)]
    return found


def expected_ids(text: str, codec, dictionary) -> list[int]:
    ids = [dictionary.index(symbol) for symbol in encode_text(text, codec)]
    return [dictionary.bos(), *ids, dictionary.eos()]


def known(ids: list[int], dictionary) -> list[int]:
    """As the model reads them."""
    return [i if i < len(dictionary) else dictionary.unk() for i in ids]


@pytest.fixture
def exported(save_checkpoint, load):
    """exported(symbols, data, ...) -> dictionary, codec and tokenizer of an export beside the data."""

    def make(symbols, data, bpe=None):
        dictionary = builders.dictionary(symbols)
        builders.write_dictionary(data, symbols)
        path = save_checkpoint("mlm_tiny", symbols=dictionary, data=data, encoder_layers=1)
        tokenizer = load("AutoTokenizer", export(path, data.with_name("export"), bpe=bpe))
        return dictionary, make_codec(bpe, data, dictionary), tokenizer

    return make


def assert_same_ids(texts, dictionary, codec, tokenizer, load, folder):
    """Also when it was saved."""
    found = tokenizer(texts)["input_ids"]
    for text, ids in zip(texts, found, strict=True):
        assert known(ids, dictionary) == expected_ids(text, codec, dictionary), text
    for a, b in itertools.pairwise(texts[:100]):
        first, second = expected_ids(a, codec, dictionary), expected_ids(b, codec, dictionary)
        assert known(tokenizer(a, b)["input_ids"], dictionary) == [*first, dictionary.eos(), *second[1:]]
    special = [getattr(tokenizer, f"{name}_token_id") for name in ("bos", "pad", "eos", "unk", "mask")]
    assert special == [0, 1, 2, 3, dictionary.index("<mask>")]
    assert tokenizer.padding_side == "right" and "token_type_ids" not in tokenizer("x")
    tokenizer.save_pretrained(folder)
    assert load("AutoTokenizer", folder)(texts)["input_ids"] == found
    ids = list(tokenizer.get_vocab().values())
    assert len(set(ids)) == len(ids)


def decoded(tokenizer, text: str) -> str:
    return tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True)


def assert_offsets(tokenizer, text: str):
    """Each token is of its characters, without the blank before a word; as RoBERTa's."""
    encoded = tokenizer(text, "a king", return_offsets_mapping=True)
    tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"])
    parts = encoded.sequence_ids()
    for token, part, (start, end) in zip(tokens, parts, encoded["offset_mapping"], strict=True):
        if part is not None:
            assert (text, "a king")[part][start:end] == token.replace("Ġ", ""), token
    assert (2, 3) in encoded["offset_mapping"]  # k


def text_tokenizer(kind: str, folder: Path) -> list[str]:
    """Writes a small BPE; returns its symbols, without those that fairseq has left out."""
    if kind == "gpt2":
        merges = [("t", "h"), ("th", "e"), ("Ġ", "t"), ("Ġt", "h"), ("i", "s"), ("Ġ", "is"), ("Ġ", "Ġ")]
        builders.write_gpt2(folder, merges)
        return [str(i) for i in range(256 + len(merges))]
    folder.mkdir(parents=True)
    tokenizer = train_bpe.train_tokenizer(LINES * 3, 400)
    if kind == "bytes":  # without the blank before a text, as GPT-2's
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.add_tokens([AddedToken("CamelCase", single_word=True, normalized=False)])
    tokenizer.save(str(folder / "tokenizer.json"))
    vocab = tokenizer.get_vocab()
    return [token for token in sorted(vocab, key=vocab.get) if token not in SPECIAL]


@pytest.mark.parametrize("kind", ["bytes", "prefixed_bytes", "gpt2"])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "lacking"])
def test_ids_of_text(kind, whole, exported, load, tmp_path):
    """In another order; and with a dictionary that lacks a tenth of the tokens."""
    symbols, bpe = text_tokenizer(kind, tmp_path / "bpe"), str(tmp_path / "bpe")
    random.Random(1).shuffle(symbols)
    symbols = [*symbols[: None if whole else -len(symbols) // 10], "madeupword0000"]
    dictionary, codec, tokenizer = exported(symbols, tmp_path / "data", bpe)
    assert len(codec.files) == (2 if kind == "gpt2" else 1)
    assert_same_ids(texts_with_masks(), dictionary, codec, tokenizer, load, tmp_path / "again")
    for text in LINES if whole else ():
        assert decoded(tokenizer, text) == text
    if kind != "gpt2":
        assert_offsets(tokenizer, LINES[1])


@pytest.mark.parametrize("arch", ["exlm_base", "mlm_tiny"])
def test_a_model_reads_ids_beyond_its_vocabulary_as_unknown(arch, save_checkpoint, load, tmp_path):
    """And never predicts them; its import has none of them."""
    symbols = text_tokenizer("bytes", tmp_path / "data")
    lacking = symbols.pop(200)
    builders.write_dictionary(tmp_path / "data", symbols)
    path = save_checkpoint(arch, symbols=builders.dictionary(symbols), data=tmp_path / "data")
    folder = export(path, tmp_path / "export")
    beyond = load("AutoTokenizer", folder).convert_tokens_to_ids(lacking)
    model = load("AutoModelForMaskedLM", folder).eval()
    assert beyond == model.config.vocab_size - 1 == len(symbols) + 5
    mask = len(symbols) + 4
    a, b = (model(torch.tensor([[0, 8, i, mask, 2]])).logits[0, 3].softmax(-1) for i in (beyond, 3))
    assert torch.equal(a, b) and a[beyond] < 1e-30
    expected = checkpoint.load(path, device="cpu").model.state_dict()
    found = checkpoint.load(folder, device="cpu").model.state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


ODD_SMILES = [
    *("C[C@@H](N)C(=O)[O-].[Na+]", "F/C=C/F", "F/C=C\\F", "c1ccc2c(c1)[nH]c1ccccc12", "C%12CC%12"),
    *("[13CH3:1]Br", "CC(C)(C)[Si](C)(C)O", "C<mask>O", "<mask>1CC1", "[Xx]C[Zz+]", "N#Cc1ccccc1"),
    *("C%(123)CC%(123)", "N<-[Cu]", "*C~C:C$C", "OB(O)c1ccsc1", "CCO"),
]


def test_ids_of_smiles(exported, load, tmp_path):
    symbols = tokenize("CcNO()12=Br[nH]/\\[C@@H][O-].F")
    data = builders.smiles_folder(tmp_path / "data", "as-given")
    dictionary, codec, tokenizer = exported(symbols, data)
    assert isinstance(codec, Smiles)
    assert tokenizer("  CCO\n")["input_ids"] == tokenizer("CCO")["input_ids"]
    assert_same_ids(ODD_SMILES, dictionary, codec, tokenizer, load, tmp_path / "again")
    assert decoded(tokenizer, "F/C=C\\F") == "F/C=C\\F"
    assert tokenizer("CxC")["input_ids"] == [0, 4, 3, 4, 2]
