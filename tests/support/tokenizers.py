"""Small tokenizers in the layouts of published ones."""

import json
from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LAYOUTS = ("xlm-r", "albert", "llama-2", "bert", "digits")
_BYTES = [f"<0x{i:02X}>" for i in range(256)]


def trained(layout: str, lines: Sequence[str]) -> Tokenizer:
    """One of LAYOUTS; ``xlm-r`` is T5's and CamemBERT's too; ``digits`` puts a blank before each piece.
    Or ``bytes``, GPT-2's."""
    blank = pre_tokenizers.Metaspace()
    if layout == "xlm-r":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer, tokenizer.decoder = normalizers.NFKC(), decoders.Metaspace()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), blank])
        trainer = trainers.UnigramTrainer(vocab_size=250, special_tokens=["<s>", "<unk>"], unk_token="<unk>")
    elif layout == "albert":
        tokenizer = Tokenizer(models.Unigram())
        steps = normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()
        tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), *steps])
        tokenizer.pre_tokenizer, tokenizer.decoder = blank, decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=250, special_tokens=["[CLS]", "<unk>"], unk_token="<unk>"
        )
    elif layout == "llama-2":
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        tokenizer.pre_tokenizer = blank
        trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>", "<s>", "</s>", *_BYTES])
    elif layout == "bert":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer, tokenizer.decoder = normalizers.BertNormalizer(), decoders.WordPiece()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=250, special_tokens=["[PAD]", "[UNK]", "[CLS]"])
    else:
        tokenizer, steps = Tokenizer(models.BPE()), [pre_tokenizers.ByteLevel(layout == "digits")]
        steps[:0] = [pre_tokenizers.Digits(individual_digits=True)] if layout == "digits" else []
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(lines, trainer)
    if layout != "llama-2":
        return tokenizer
    settings = json.loads(tokenizer.to_str())  # the blank is the normalizer's, and words are not split before
    replaced = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    steps = [{"type": "Prepend", "prepend": "▁"}, replaced]
    settings |= {"normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": None}
    steps = [
        {**replaced, "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    settings["decoder"] = {"type": "Sequence", "decoders": steps}
    return Tokenizer.from_str(json.dumps(settings))
