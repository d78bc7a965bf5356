"""Tokenizers of transformers whose ids are those of a fairseq dictionary: ``tokenizer.json``.

Tokens that a BPE has and the dictionary lacks get ids from the dictionary's size on, one each; the model
reads them as ``<unk>``.
"""

import json
from itertools import count
from pathlib import Path

from fairseq.data import Dictionary
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from fs_plugins.data.smiles_tokens import PATTERN
from fs_plugins.data.text_codecs import Codec, HfTokenizer, Smiles, is_special

SPECIAL = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}


def make_tokenizer(dictionary: Dictionary, codec: Codec) -> Tokenizer:
    """A tokenizer that writes ``<s> A </s>`` and, for pairs, ``<s> A </s> </s> B </s>`` as in fine-tuning.

    Args:
        dictionary: of the checkpoint, with ``<mask>``.
        codec: how its corpus was written.

    Raises:
        ValueError: for a tokenizer whose ids cannot be changed.
    """
    if isinstance(codec, HfTokenizer):
        tokenizer = _renumbered(dictionary, codec)
    else:
        tokenizer = Tokenizer(models.WordLevel(dict(dictionary.indices), unk_token=SPECIAL["unk"]))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if isinstance(codec, Smiles):  # what matches no token is <unk>, where this package raises an error
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERN), "isolated")
        tokenizer.normalizer, tokenizer.decoder = normalizers.Strip(), decoders.Fuse()
    tokenizer.add_special_tokens([_added(token) for token in SPECIAL.values()])
    ends = [(token, dictionary.index(token)) for token in (SPECIAL["bos"], SPECIAL["eos"])]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ends
    )
    return tokenizer


def _added(token: str) -> AddedToken:
    """A special token; of the mask, the blank before it belongs to its word."""
    return AddedToken(token, lstrip=token == SPECIAL["mask"], normalized=False, special=True)


def tokenizer_config(max_length: int) -> dict:
    """The content of tokenizer_config.json; ``max_length`` in tokens, with ``<s>`` and ``</s>``."""
    tokens = {f"{name}_token": token for name, token in SPECIAL.items()}
    mask = _added(SPECIAL["mask"])
    names = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
        **tokens,
        "cls_token": SPECIAL["bos"],
        "sep_token": SPECIAL["eos"],
        "mask_token": {"__type": "AddedToken", **{name: getattr(mask, name) for name in names}},
    }


def _renumbered(dictionary: Dictionary, codec: HfTokenizer) -> Tokenizer:
    """The codec's tokenizer with the ids of the dictionary, whose symbols stand for its tokens."""
    state = json.loads(codec.tokenizer.to_str())
    model, vocab = state["model"], state["model"].get("vocab")
    if not isinstance(vocab, dict) and model.get("type") != "Unigram":
        raise ValueError(
            f"{codec.files[0]} is a tokenizer of type {model.get('type')}, whose ids cannot be changed"
        )
    added = [t for t in state["added_tokens"] if not t["special"] and not is_special(t["content"])]
    scores = dict(vocab)  # of a Unigram; else the old ids
    of_symbols = {symbol: codec.tokens.get(symbol, symbol) for symbol in dictionary.indices}
    ids, beyond = {of_symbols[symbol]: i for symbol, i in dictionary.indices.items()}, count(len(dictionary))
    for token in (*scores, *(t["content"] for t in added)):
        if token not in ids:
            ids[token] = next(beyond)
    if isinstance(vocab, dict):
        model["vocab"] = ids
    else:
        worst = min(scores.values()) - 100.0  # of symbols that no text is to be cut into
        model["vocab"] = [[token, scores.get(token, worst)] for token in sorted(ids, key=ids.get)]
        model["unk_id"] = dictionary.unk()
    state["pre_tokenizer"], prefixed = _blank_at_start_only(state["pre_tokenizer"])
    if prefixed and (state["decoder"] or {}).get("type") == "ByteLevel":
        strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}  # the blank put before the text
        state["decoder"] = {"type": "Sequence", "decoders": [state["decoder"], strip]}
    state["added_tokens"] = [{**token, "id": ids[token["content"]]} for token in added]
    return Tokenizer.from_str(
        json.dumps({**state, "truncation": None, "padding": None, "post_processor": None})
    )


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


def written_as(path: Path) -> str:
    """How text is written in the tokens of a tokenizer.json made here, as of
    :func:`fs_plugins.data.text_codecs.make_codec`: "smiles", "none", or the file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    splitter = (content["pre_tokenizer"] or {}).get("type")
    known = {"Split": "smiles", "WhitespaceSplit": "none"} if content["model"]["type"] == "WordLevel" else {}
    return known.get(splitter, str(path))
