"""Tokenizers of transformers whose ids are those of a fairseq dictionary: ``tokenizer.json``.

Tokens that a BPE has and the dictionary lacks get ids from the dictionary's size on, one each; the model
reads them as ``<unk>``.
"""

import json

from fairseq.data import Dictionary
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from fs_plugins.data.smiles_tokens import PATTERN
from fs_plugins.data.text_codecs import ByteBpe, Codec, Smiles

SPECIAL = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}


def make_tokenizer(dictionary: Dictionary, codec: Codec) -> Tokenizer:
    """Returns a tokenizer that writes ``<s> A </s>`` and, for pairs, ``<s> A </s> </s> B </s>``, as in
    fine-tuning; ``dictionary`` has ``<mask>``."""
    if isinstance(codec, ByteBpe):
        tokenizer = _renumbered(dictionary, codec)
    else:
        tokenizer = Tokenizer(models.WordLevel(dict(dictionary.indices), unk_token=SPECIAL["unk"]))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if isinstance(codec, Smiles):  # text that matches no token is <unk>; this package raises an error
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


def tokenizer_config(max_length: int) -> dict:
    """Returns the content of tokenizer_config.json; ``max_length`` in tokens, with ``<s>`` and ``</s>``."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
        **{f"{name}_token": token for name, token in SPECIAL.items()},
        "cls_token": SPECIAL["bos"],
        "sep_token": SPECIAL["eos"],
        "mask_token": {"__type": "AddedToken", **_added(SPECIAL["mask"]).__getstate__()},
    }


def _renumbered(dictionary: Dictionary, bpe: ByteBpe) -> Tokenizer:
    """Returns a BPE's tokenizer with the ids of the dictionary, whose symbols stand for its tokens."""
    content = json.loads(bpe.tokenizer.to_str())
    ids = {bpe.tokens.get(symbol, symbol): i for symbol, i in dictionary.indices.items()}
    for token in bpe.tokens.values():
        ids.setdefault(token, len(ids))
    content["model"] |= {"vocab": ids, "unk_token": None}
    added = (token for token in content["added_tokens"] if not token["special"])
    content["added_tokens"] = [{**token, "id": ids[token["content"]]} for token in added]
    tokenizer = Tokenizer.from_str(json.dumps({**content, "post_processor": None}))
    if bpe.puts_blank:  # puts none before what follows a mask
        blank = pre_tokenizers.Metaspace(replacement=" ", prepend_scheme="first", split=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([blank, bpe.inner.pre_tokenizer])
        tokenizer.decoder = decoders.Sequence([tokenizer.decoder, decoders.Strip(" ", 1, 0)])
    return tokenizer
