"""Tokenizers of transformers whose ids are those of a fairseq dictionary: ``tokenizer.json``.

Tokens that a BPE has and the dictionary lacks get ids from the dictionary's size on, one each; the model
reads them as ``<unk>``.
"""

import json
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from fairseq.data import Dictionary
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from fs_plugins.data.smiles_tokens import PATTERN
from fs_plugins.data.text_codecs import Codec, HfTokenizer, Smiles, encode_text, is_special, unknown_token
from fs_plugins.huggingface.code_files import SMILES_TOKENIZER

SPECIAL = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
AWKWARD = (
    "The state of the war, it's said: 12,345 of 3.14 (or -7%)!",
    "two  blanks and   three, snake_case CamelCase http://x.org/?a=1&b=2",
    "naïve café – “über” e\u0301 ½ № ﬁ",
    "東京 は 日本 の 首都です。 שלום мир",
    "a smile 🙂 at last 👩‍👩‍👧 \u00a0 end",
    "x",
)


def make_tokenizer(dictionary: Dictionary, codec: Codec) -> Tokenizer:
    """Returns a tokenizer that writes ``<s> A </s>`` and, for pairs, ``<s> A </s> </s> B </s>``, as in
    fine-tuning; ``dictionary`` has ``<mask>``. Raises ValueError for a codec's tokenizer whose ids cannot be
    changed."""
    if isinstance(codec, HfTokenizer):
        tokenizer = _renumbered(dictionary, codec)
    else:
        tokenizer = Tokenizer(models.WordLevel(dict(dictionary.indices), unk_token=SPECIAL["unk"]))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if isinstance(codec, Smiles):  # what matches no token is <unk>, where this package raises an error
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERN), "isolated")
        tokenizer.normalizer, tokenizer.decoder = normalizers.Strip(), decoders.Fuse()
    tokenizer.add_special_tokens([_added(token) for token in SPECIAL.values()])
    # <s> A </s> </s> B </s>, and offsets without the blanks before words
    ends = ((SPECIAL[name], dictionary.index(SPECIAL[name])) for name in ("eos", "bos"))
    tokenizer.post_processor = processors.RobertaProcessing(*ends)
    return tokenizer


def _added(token: str) -> AddedToken:
    """Returns a special token; of the mask, the blank before it belongs to its word."""
    return AddedToken(token, lstrip=token == SPECIAL["mask"], normalized=False, special=True)


def tokenizer_config(max_length: int, canonical: bool = False, allow_valence: bool = False) -> dict:
    """Returns the content of tokenizer_config.json.

    Args:
        max_length: in tokens, with ``<s>`` and ``</s>``.
        canonical: whether SMILES are brought into RDKit's canonical form; ``allow_valence``: whether atoms
            may have more bonds than RDKit permits.
    """
    own = {"tokenizer_class": "PreTrainedTokenizerFast"}
    if canonical:
        own = {"tokenizer_class": SMILES_TOKENIZER.partition(".")[2], "allow_valence": allow_valence}
        own["auto_map"] = {"AutoTokenizer": [None, SMILES_TOKENIZER]}
    return {
        **own,
        "model_max_length": max_length,
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
        **{f"{name}_token": token for name, token in SPECIAL.items()},
        "cls_token": SPECIAL["bos"],
        "sep_token": SPECIAL["eos"],
        "mask_token": {"__type": "AddedToken", **_added(SPECIAL["mask"]).__getstate__()},
    }


def _renumbered(dictionary: Dictionary, codec: HfTokenizer) -> Tokenizer:
    """Returns the codec's tokenizer with the ids of the dictionary, whose symbols stand for its tokens."""
    state = codec.settings()
    model, vocab = state["model"], state["model"].get("vocab")
    if not isinstance(vocab, dict) and model.get("type") != "Unigram":
        raise ValueError(f"{codec.files[0]} is of type {model.get('type')}, whose ids cannot be changed")
    added = [t for t in state["added_tokens"] if not t["special"] and not is_special(t["content"])]
    scores = dict(vocab)  # of a Unigram; else the old ids
    scores.pop(unknown_token(model), None)  # becomes <unk>
    of_symbols = {symbol: codec.tokens.get(symbol, symbol) for symbol in dictionary.indices}
    of_symbols[SPECIAL["unk"]] = SPECIAL["unk"]
    ids, beyond = {of_symbols[symbol]: i for symbol, i in dictionary.indices.items()}, count(len(dictionary))
    for token in (*scores, *(t["content"] for t in added)):
        if token not in ids:
            ids[token] = next(beyond)
    if isinstance(vocab, dict):
        model["vocab"] = ids
        model["unk_token"] = SPECIAL["unk"] if model.get("unk_token") else None
    else:
        worst = min(scores.values()) - 100.0  # of symbols that no text is to be cut into
        model["vocab"] = [[token, scores.get(token, worst)] for token in sorted(ids, key=ids.get)]
        model["unk_id"] = dictionary.unk()
    blank = ((state["pre_tokenizer"] or {}).get("pretokenizers") or [{}])[0].get("replacement")
    if blank == " " and (state["decoder"] or {}).get("type") == "ByteLevel":
        strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}  # the blank put before the text
        state["decoder"] = {"type": "Sequence", "decoders": [state["decoder"], strip]}
    state["added_tokens"] = [{**token, "id": ids[token["content"]]} for token in added]
    state |= {"truncation": None, "padding": None, "post_processor": None}
    return Tokenizer.from_str(json.dumps(state))


def written_as(path: Path) -> str:
    """Returns how text is written in the tokens of a tokenizer.json made here, as of
    :func:`fs_plugins.data.text_codecs.make_codec`: "smiles", "none", or the file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    splitter = (content.get("pre_tokenizer") or {}).get("type")
    if content["model"].get("type") != "WordLevel":
        return str(path)
    return {"Split": "smiles", "WhitespaceSplit": "none"}.get(splitter, str(path))


def check_tokenizer(
    tokenizer: Tokenizer, dictionary: Dictionary, codec: Codec, lines: Iterable[str] = ()
) -> None:
    """Raises ValueError unless a tokenizer gives the ids of the training: for awkward lines and those given,
    whole, and with a mask for a word at the start, in the middle and at the end; or if what follows a mask
    is cut otherwise than in the whole line."""
    if not isinstance(codec, HfTokenizer):
        return
    for line in (*AWKWARD, *lines):
        if any(special in line for special in SPECIAL.values()):
            continue
        whole, words = _known(codec.encode(line, first=True), dictionary), line.split(" ")
        cases = [(line, whole, _encoded(tokenizer, line, dictionary))]
        for i in {0, len(words) // 2, len(words) - 1}:
            text = " ".join([*words[:i], SPECIAL["mask"], *words[i + 1 :]])
            masked = _known(encode_text(text, codec), dictionary)
            cases.append((text, masked, _encoded(tokenizer, text, dictionary)))
            after = masked[masked.index(SPECIAL["mask"]) + 1 :]
            cases.append((line, whole[len(whole) - len(after) :], after))
        for text, trained, exported in cases:
            if trained != exported:
                raise ValueError(
                    f"{' and '.join(map(str, codec.files))}: {text!r} becomes {' '.join(trained)!r} in "
                    f"training, and {' '.join(exported)!r} in the exported model, or after a mask: this kind "
                    "of tokenizer is not supported, choose another"
                )


def _encoded(tokenizer: Tokenizer, text: str, dictionary: Dictionary) -> list[str]:
    """Returns the symbols of the ids that a tokenizer gives."""
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return [dictionary[i] if i < len(dictionary) else dictionary.unk_word for i in ids]


def _known(symbols: Iterable[str], dictionary: Dictionary) -> list[str]:
    """Returns the symbols, those that a dictionary lacks as ``<unk>``."""
    return [dictionary[dictionary.index(symbol)] for symbol in symbols]
