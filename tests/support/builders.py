"""Small models, dictionaries and batches for tests."""

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import lmdb
import numpy as np
import torch
from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from torch import Tensor

import fs_plugins
from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM

fs_plugins.register()

ATOMS = ["C", "N", "O", "c", "(", ")", "=", "1", "Cl", "[NH3+]", "[H]", "[O-]"]
WORDS = ["this", "is", "very", "good", "bad", "news", ",", "and", "I", "am"]
WORDS += ["glad", "sorry", "to", "see", "it", "."]
TEXTS = [
    "this is good news , and I am very glad to see it .",
    "this is bad news , and I am very sorry to see it .",
    "it is good , I see .",
    "I am very sorry .",
    "very good news , and I am glad to see this .",
]
BYTE_OF_LETTER = {letter: byte for byte, letter in bytes_to_unicode().items()}  # GPT-2's alphabet
DAG, CTC = "nat_dag_loss_mlm", "nat_ctc_loss_mlm"
_SPARSE = {"ext_state_num": 2, "state_graph": "sparse", "max_transition_length": 4, "rope_dimensions": 1}
_SPARSE |= {"links_feature": "feature", "untie_weights_roberta": True}
_POSTNORM = {"ext_state_num": 4, "links_feature": "position", "max_transition_length": 7}
# kinds of pre-trained models: name -> arch, criterion, flags
KINDS = {
    "exlm": ("exlm_base", DAG, {"ext_state_num": 3}),
    "sparse": ("exlm_base", DAG, _SPARSE),
    "postnorm": ("p_roberta_ext_denselink_base", DAG, {**_POSTNORM, "activation_fn": "relu"}),
    "ctc": ("exlm_base", CTC, {"ext_state_num": 3}),
    "mlm": ("mlm_smiles", "masked_lm", {}),
    "mlm_1d": ("mlm_smiles", "masked_lm", {"rope_dimensions": 1, "untie_weights_roberta": True}),
    "repeated": ("p_roberta_base", "masked_lm", {"repeat_times": 3}),
}
EXPORTED = ("exlm", "sparse", "postnorm", "mlm", "mlm_1d")  # those that transformers has a class for
SMALL = {"encoder_layers": 2, "encoder_embed_dim": 32, "encoder_ffn_embed_dim": 48, "max_positions": 256}
SMALL |= {"encoder_attention_heads": 4, "dropout": 0.0, "attention_dropout": 0.0}


def dictionary(words: int | Sequence[str] = 20) -> Dictionary:
    """Specials, words w0, w1, ... (or those given) and <mask>."""
    result = Dictionary()
    for word in [f"w{i}" for i in range(words)] if isinstance(words, int) else words:
        result.add_symbol(word)
    result.add_symbol("<mask>")
    return result


def task(symbols: Dictionary) -> argparse.Namespace:
    """What models and criteria read of a fairseq task."""
    return argparse.Namespace(source_dictionary=symbols, target_dictionary=symbols)


def flags(arch: str, **overrides) -> argparse.Namespace:
    """The flags of a model as ``--arch`` completes them."""
    args = argparse.Namespace(arch=arch, **overrides)
    ARCH_CONFIG_REGISTRY[arch](args)
    return args


def model(arch: str, symbols: Dictionary, *, seed: int = 0, **overrides):
    """A model as fairseq builds it from ``--arch`` and flags, in evaluation mode."""
    torch.manual_seed(seed)
    return ARCH_MODEL_REGISTRY[arch].build_model(flags(arch, **overrides), task(symbols)).eval()


def exlm(symbols: Dictionary, *, arch: str = "exlm_base", **overrides):
    """A small ExLM."""
    return model(arch, symbols, **{**SMALL, **overrides})


def mlm(symbols: Dictionary, **overrides):
    """A small vanilla MLM."""
    return model("p_roberta_base", symbols, **{**SMALL, **overrides})


def trained(model):
    """The model with states that differ and say different words, as if it were trained."""
    encoder, generator = model.encoder, torch.Generator().manual_seed(0)
    with torch.no_grad():
        for layer in encoder.sentence_encoder.layers:
            for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.out_proj):
                projection.weight.normal_(generator=generator)
        encoder.lm_head.dense.weight.normal_(generator=generator)
        encoder.lm_head.bias.normal_(0, 1.5, generator=generator)
    return model


def sentence(symbols: Dictionary, length: int, masks: Sequence[int], *, seed: int = 0, end: bool = True):
    """(tokens, targets), each [T]: <s>, ``length`` words, </s> if ``end``; masked at the given indices."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(symbols.nspecial, len(symbols) - 1, (length,), generator=generator)
    edge = torch.tensor([symbols.bos()]), torch.tensor([symbols.eos()] if end else [], dtype=torch.int64)
    tokens = torch.cat([edge[0], words, edge[1]])
    targets = torch.full_like(tokens, symbols.pad())
    for i in masks:
        targets[i] = tokens[i]
        tokens[i] = symbols.index("<mask>")
    return tokens, targets


def rows(symbols: Dictionary, lengths: Sequence[int], rng: np.random.Generator) -> list[list[int]]:
    """So many random words, and </s>."""
    ids = (rng.integers(symbols.nspecial, len(symbols) - 1, length) for length in lengths)
    return [[*row.tolist(), symbols.eos()] for row in ids]


def sample(symbols: Dictionary, sentences: Sequence[tuple[Tensor, Tensor]]) -> dict:
    """A batch as fairseq's masked_lm task gives it to a criterion."""
    columns, pad = zip(*sentences, strict=True), torch.nn.utils.rnn.pad_sequence
    tokens, targets = (pad(list(column), True, symbols.pad()) for column in columns)
    lengths = torch.tensor([len(t) for t, _ in sentences])
    net_input = {"src_tokens": tokens, "src_lengths": lengths}
    counts = {"nsentences": len(sentences), "ntokens": int(lengths.sum())}
    return {"net_input": net_input, "target": targets, **counts}


def criterion(symbols: Dictionary) -> NatDagLossMLM:
    return NatDagLossMLM(task(symbols))


def write_dictionary(folder: Path, symbols: Sequence[str]) -> None:
    """A folder's dict.txt, which has no <mask>."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{symbol} 1\n" for symbol in symbols if symbol != "<mask>")
    (folder / "dict.txt").write_text(lines, encoding="utf-8")


def write_split(folder: Path, name: str, sentences: Sequence[Sequence[int]], symbols: Dictionary) -> None:
    """A split of binarised sentences in a folder of fairseq-preprocess, and its dict.txt."""
    write_dictionary(folder, symbols.symbols[symbols.nspecial :])
    builder = indexed_dataset.make_builder(str(folder / f"{name}.bin"), "mmap", len(symbols))
    for one in sentences:
        builder.add_item(torch.tensor(one))
    builder.finalize(str(folder / f"{name}.idx"))


def read_split(folder: Path, name: str) -> list[list[str]]:
    """The symbols of each sentence of a binarised split, by fairseq's own reader, without the last </s>."""
    symbols = Dictionary.load(str(folder / "dict.txt"))
    rows = [[symbols[i] for i in ids] for ids in indexed_dataset.MMapIndexedDataset(str(folder / name))]
    assert all(row.index("</s>") == len(row) - 1 for row in rows)
    return [row[:-1] for row in rows]


def write_gpt2(folder: Path, merges: Sequence[tuple[str, str]]) -> Path:
    """A BPE in GPT-2's files: the 256 bytes and these merges."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = [*BYTE_OF_LETTER, *("".join(pair) for pair in merges)]
    (folder / "encoder.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "vocab.bpe").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_file(path: Path, content) -> Path:
    """A file and its folder: bytes, text in UTF-8, or other content as JSON; compressed if its name ends in
    .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content if isinstance(content, str | bytes) else json.dumps(content)
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_lmdb(path: Path, values: Sequence[bytes]) -> Path:
    """An LMDB file as from Uni-Mol's scripts: keys are counters in ASCII."""
    environment = lmdb.open(str(path), subdir=False, map_size=1 << 30, sync=False)
    with environment, environment.begin(write=True) as transaction:
        for key, value in enumerate(values):
            transaction.put(str(key).encode("ascii"), value)
    path.with_name(f"{path.name}-lock").unlink(missing_ok=True)
    return path


# name -> paragraphs, as they come out of every layout of text
CORPUS = {
    f"Document {i}": [f"The thing {i} is in the inn, the {word}.", "Then it thins; “the end” in é."]
    for i, word in enumerate(["one", "two", "three", "four", "five", "six", "seven", "eight"])
}


def paragraphs_text() -> str:
    return "\n\n".join("\n".join(paragraphs) for paragraphs in CORPUS.values()) + "\n"


def json_text() -> str:
    texts = ("\n".join(paragraphs) + "\n" for paragraphs in CORPUS.values())
    return "".join(json.dumps({"id": "1", "text": text}) + "\n" for text in texts)


def corpus_sentences() -> list[str]:
    """The sentences of CORPUS: its paragraphs, and an empty one after each document."""
    return [line for paragraphs in CORPUS.values() for line in [*paragraphs, ""]]


def smiles_folder(folder: Path, form: str = "canonical") -> Path:
    """What prepare_smiles.py makes of two molecules."""
    import prepare_smiles

    source = write_file(folder.parent / "molecules.smi", "CCO\nc1ccccc1\n")
    argv = [folder, "--train", source, "--valid", source, "--smiles", form]
    assert prepare_smiles.main(list(map(str, argv))) == 0
    return folder


def text_folder(folder: Path) -> Path:
    """What prepare_text.py makes of a page of text."""
    import prepare_text
    import train_bpe

    source, bpe = write_file(folder.parent / "wiki.txt", paragraphs_text()), folder.parent / "mine.json"
    train_bpe.train_tokenizer(paragraphs_text().splitlines(), 300).save(str(bpe))
    argv = [folder, "--train", source, "--valid", source, "--bpe", bpe, "--workers", 1]
    assert prepare_text.main(list(map(str, argv))) == 0
    return folder


def save_checkpoint(path, model, flags, task, criterion, *, updates=5, cfg=None, **state):
    """What fairseq-train saves of a model, so far as anything reads it; returns the path.

    Args:
        model: or its state.
        flags: of the model, --arch among them; task, criterion: the flags of each, with ``_name``.
        cfg: further groups of flags, or others.
        state: further entries of the file, or others than those of an epoch's end.
    """
    groups = {"model": argparse.Namespace(_name=flags["arch"], **flags), "task": task, "criterion": criterion}
    history = [{"num_updates": updates, "lr_scheduler_state": {}, "optimizer_name": "FairseqAdam"}]
    weights = model if isinstance(model, dict) else model.state_dict()
    whole = {"args": None, "cfg": {**groups, **(cfg or {})}, "model": weights}
    extra = {"epoch": 1, "train_iterator": {"epoch": 1}}
    torch.save({**whole, "optimizer_history": history, "extra_state": extra, **state}, path)
    return path
