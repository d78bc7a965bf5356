"""Tokenizers of transformers whose ids are those of a fairseq dictionary: ``tokenizer.json``.

Tokens that a BPE has and the dictionary lacks get ids from the dictionary's size on, one each; the model
reads them as ``<unk>``.
"""

import json
from itertools import count
from pathlib import Path

from fairseq.data import Dictionary

from fs_plugins.data.smiles_tokens import PATTERN
from fs_plugins.data.text_codecs import Codec, Gpt2Bpe, HfTokenizer, Smiles, is_special

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
SPECIAL = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}


def tokenizer_json(dictionary: Dictionary, codec: Codec) -> dict:
    """The content of a tokenizer.json.

    Args:
        dictionary: of the checkpoint, with ``<mask>``.
        codec: how its corpus was written.

    Raises:
        ValueError: for a tokenizer whose ids cannot be changed.
    """
    if isinstance(codec, Smiles):
        parts = _smiles(dictionary)
    elif isinstance(codec, Gpt2Bpe):
        parts = _gpt2(dictionary, *codec.files)
    elif isinstance(codec, HfTokenizer):
        parts = _renumbered(dictionary, *codec.files)
    else:
        parts = _words(dictionary, {"type": "WhitespaceSplit"})
    return _complete(parts, dictionary)


def count_ids(content: dict) -> int:
    """How many ids a tokenizer.json has, the special tokens' and those beyond the dictionary included."""
    vocab = content["model"]["vocab"]
    ids = vocab.values() if isinstance(vocab, dict) else range(len(vocab))
    return 1 + max(*ids, *(token["id"] for token in content["added_tokens"]))


def tokenizer_config(dictionary: Dictionary, max_length: int) -> dict:
    """The content of tokenizer_config.json; ``max_length`` in tokens, with ``<s>`` and ``</s>``."""
    tokens = {f"{name}_token": token for name, token in SPECIAL.items()}
    mask = {"__type": "AddedToken", **_added("<mask>", dictionary)}
    del mask["id"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
        **tokens,
        "cls_token": SPECIAL["bos"],
        "sep_token": SPECIAL["eos"],
        "mask_token": mask,
    }


def _words(dictionary: Dictionary, pre_tokenizer: dict, **others) -> dict:
    model = {"type": "WordLevel", "vocab": dict(dictionary.indices), "unk_token": SPECIAL["unk"]}
    return {"pre_tokenizer": pre_tokenizer, "model": model, **others}


def _smiles(dictionary: Dictionary) -> dict:
    """What matches no token is <unk>, where this package raises an error."""
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    return _words(dictionary, split, normalizer=strip, decoder={"type": "Fuse"})


def _gpt2(dictionary: Dictionary, encoder_json: Path, vocab_bpe: Path) -> dict:
    """The symbols of the dictionary are GPT-2's ids, written out; those of tokenizer.json its tokens."""
    tokens = json.loads(encoder_json.read_text(encoding="utf-8"))
    lines = vocab_bpe.read_text(encoding="utf-8").split("\n")
    merges = [line.split() for line in lines if line and not line.startswith("#version")]
    vocab = _vocab({token: str(i) for token, i in tokens.items()}, dictionary)
    model = {"type": "BPE", "vocab": vocab, "merges": merges}
    return {"pre_tokenizer": BYTE_LEVEL, "decoder": BYTE_LEVEL, "model": model}


def _renumbered(dictionary: Dictionary, path: Path) -> dict:
    """A tokenizer.json with the ids of a dictionary whose symbols are its tokens."""
    state = json.loads(path.read_text(encoding="utf-8"))
    model, vocab = state["model"], state["model"].get("vocab")
    if not isinstance(vocab, dict) and model.get("type") != "Unigram":
        raise ValueError(f"{path} is a tokenizer of type {model.get('type')}, whose ids cannot be changed")
    added = [t for t in state.get("added_tokens") or [] if not t["special"] and not is_special(t["content"])]
    scores = dict(vocab)  # of a Unigram; else the old ids
    ids = _vocab({token: token for token in (*scores, *(t["content"] for t in added))}, dictionary)
    if isinstance(vocab, dict):
        model["vocab"] = ids
    else:
        worst = min(scores.values()) - 100.0  # of symbols that no text is to be cut into
        model["vocab"] = [[token, scores.get(token, worst)] for token in sorted(ids, key=ids.get)]
        model["unk_id"] = dictionary.unk()
    parts = {key: state.get(key) for key in ("normalizer", "pre_tokenizer", "decoder")}
    parts["pre_tokenizer"], prefixed = _blank_at_start_only(parts["pre_tokenizer"])
    if prefixed and (parts["decoder"] or {}).get("type") == "ByteLevel":
        strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}  # the blank put before the text
        parts["decoder"] = {"type": "Sequence", "decoders": [parts["decoder"], strip]}
    added = [{**token, "id": ids[token["content"]]} for token in added]
    return {**parts, "model": model, "added_tokens": added}


def _vocab(symbols: dict[str, str], dictionary: Dictionary) -> dict[str, int]:
    """{token: id} of all tokens (given as {token: its symbol}) and of the dictionary's other symbols."""
    of_symbol = {symbol: token for token, symbol in symbols.items()}
    vocab = {of_symbol.get(symbol, symbol): i for symbol, i in dictionary.indices.items()}
    beyond = count(len(dictionary))
    return vocab | {token: next(beyond) for token in symbols if token not in vocab}


def _blank_at_start_only(settings) -> tuple[object, bool]:
    """A pre-tokenizer that puts a blank before a text, but not before what follows a ``<mask>``; and whether
    its ByteLevel did."""
    if isinstance(settings, list):
        changed = [_blank_at_start_only(value) for value in settings]
        return [value for value, _ in changed], any(prefixed for _, prefixed in changed)
    if not isinstance(settings, dict):
        return settings, False
    changed = {key: _blank_at_start_only(value) for key, value in settings.items()}
    settings, prefixed = (
        {key: value for key, (value, _) in changed.items()},
        any(p for _, p in changed.values()),
    )
    if settings.get("prepend_scheme") == "always":
        settings["prepend_scheme"] = "first"
    if settings.get("type") == "ByteLevel" and settings["add_prefix_space"]:
        first = {"type": "Metaspace", "replacement": " ", "prepend_scheme": "first", "split": False}
        return {"type": "Sequence", "pretokenizers": [first, {**settings, "add_prefix_space": False}]}, True
    return settings, prefixed


def _added(token: str, dictionary: Dictionary) -> dict:
    """A special token; of the mask, the blank before it belongs to its word."""
    flags = {"single_word": False, "lstrip": token == SPECIAL["mask"], "rstrip": False, "normalized": False}
    return {"id": dictionary.index(token), "content": token, **flags, "special": True}


def _complete(parts: dict, dictionary: Dictionary) -> dict:
    """With special tokens: ``<s> A </s>`` and, for pairs, ``<s> A </s> </s> B </s>`` as in fine-tuning."""
    special = [_added(token, dictionary) for token in SPECIAL.values()]
    bos, eos = ({"SpecialToken": {"id": SPECIAL[name], "type_id": 0}} for name in ("bos", "eos"))
    a, b = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    ends = {
        token: {"id": token, "ids": [dictionary.index(token)], "tokens": [token]}
        for token in (SPECIAL["bos"], SPECIAL["eos"])
    }
    template = {"single": [bos, a, eos], "pair": [bos, a, eos, eos, b, eos], "special_tokens": ends}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(special + parts.get("added_tokens", []), key=lambda token: token["id"]),
        "normalizer": parts.get("normalizer"),
        "pre_tokenizer": parts["pre_tokenizer"],
        "post_processor": {"type": "TemplateProcessing", **template},
        "decoder": parts.get("decoder"),
        "model": parts["model"],
    }
