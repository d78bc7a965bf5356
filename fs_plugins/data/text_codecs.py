"""Text to symbols of the dictionary and back: GPT-2 BPE, a HF tokenizer.json, SMILES, or symbols between
blanks."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from fairseq.data import Dictionary
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.data.vocabulary import MASK, SPECIAL
from fs_plugins.files import reading

HF_FILE, GPT2_FILES = "tokenizer.json", ("encoder.json", "vocab.bpe")
MANIFEST = "manifest.json"  # of a folder made by scripts/prepare_*.py: its settings and inputs


class Codec(ABC):
    """How a corpus was written in the symbols of its dictionary."""

    name: str  # of the kind
    files: tuple[Path, ...] = ()  # that it was read from
    example = f"This is {MASK}."

    @abstractmethod
    def encode(self, text: str, first: bool) -> list[str]:
        """The symbols of a piece of text; ``first`` if it is the start of the sentence."""

    @abstractmethod
    def decode(self, symbols: Sequence[str]) -> str:
        """The text of symbols, with the blanks that they carry."""

    def word(self, symbol: str) -> str:
        """A symbol as a word to show: without its blank, which alone is ``␣``; with ``##`` where it goes on
        with a word."""
        text = self.decode([symbol])
        shown = text.strip() or repr(text)[1:-1].replace(" ", "␣") or symbol
        goes_on = not is_special(symbol) and not self.starts_word(symbol) and shown[0].isalnum()
        return f"##{shown}" if goes_on else shown

    def starts_word(self, symbol: str) -> bool:
        """Whether there is a blank before the symbol."""
        return True


class Blanks(Codec):
    """Symbols between blanks, as in data binarised without a BPE; SMILES tokens, for instance."""

    name = "none"

    def encode(self, text, first):
        return text.split()

    def decode(self, symbols):
        return " ".join(symbols)


class Smiles(Codec):
    """SMILES, as scripts/prepare_smiles.py cuts them; what is no SMILES token is a ValueError."""

    name = "smiles"
    example = f"CC{MASK}O"

    def encode(self, text, first):
        return tokenize(text)

    def decode(self, symbols):
        return "".join(symbols)


class HfTokenizer(Codec):
    """A tokenizer.json of Hugging Face's tokenizers whose tokens are the dictionary's symbols."""

    name = "tokenizer.json"
    STARTS = ("Ġ", "▁")  # how byte-level BPEs and sentencepiece write a blank

    def __init__(self, path: str | os.PathLike):
        with reading(path):
            settings = json.loads(Path(path).read_text(encoding="utf-8"))
            settings |= {"truncation": None, "padding": None}
            self.tokenizer = Tokenizer.from_str(json.dumps(settings))
            rare = self.tokenizer.encode("\U00012000", add_special_tokens=False).tokens
        if not any(token.strip("▁Ġ ") for token in rare):
            raise ValueError(
                f"{path} leaves out what it has no token for: give one with an unk_token, or bytes"
            )
        self.files = (Path(path),)
        once = json.dumps(self.settings()).replace('"prepend_scheme": "first"', '"prepend_scheme": "never"')
        self.inner = Tokenizer.from_str(once)
        self.tokens = {token: token for token in self.tokenizer.get_vocab()}  # of symbols
        if (unknown := unknown_token(json.loads(self.tokenizer.to_str())["model"])) in self.tokens:
            self.tokens["<unk>"] = unknown

    def settings(self) -> dict:
        """Those of a tokenizer that puts a blank before a text, if this one does, but not before what follows
        a special token: the content of a tokenizer.json."""
        settings = json.loads(self.tokenizer.to_str())
        before = _steps(settings["normalizer"], "normalizers")
        steps = _steps(settings["pre_tokenizer"], "pretokenizers")
        first = steps[0] if steps else {}
        if prepended := [step for step in before if step["type"] == "Prepend"]:
            before.remove(prepended[0])
            steps.insert(0, _blank_before(prepended[0]["prepend"]))
        elif first.get("prepend_scheme") == "always":
            steps[0] = {**first, "prepend_scheme": "first"}
        elif first.get("type") == "ByteLevel" and first["add_prefix_space"]:
            steps[:1] = [_blank_before(" "), {**first, "add_prefix_space": False}]
        settings["normalizer"] = {"type": "Sequence", "normalizers": before} if before else None
        settings["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps} if steps else None
        return settings

    @cached_property
    def symbols(self) -> dict[str, str]:
        """Of tokens."""
        return {token: symbol for symbol, token in self.tokens.items()}

    @cached_property
    def marks_starts(self) -> bool:
        return any(token.startswith(self.STARTS) for token in self.symbols if len(token) > 1)

    def encode(self, text, first):
        tokenizer = self.tokenizer if first else self.inner
        tokens = tokenizer.encode(text, add_special_tokens=False).tokens
        return [self.symbols.get(token, token) for token in tokens]

    def word(self, symbol):
        blank = self.tokens.get(symbol) in self.STARTS
        return "␣" if blank else super().word(symbol)  # a decoder may drop a first blank

    def starts_word(self, symbol):
        return not self.marks_starts or self.tokens.get(symbol, "▁").startswith(self.STARTS)

    def decode(self, symbols):
        if self.tokenizer.decoder is None:
            return " ".join(symbols)
        text, run = "", []
        for symbol in [*symbols, None]:
            if symbol in self.tokens and not is_special(symbol):
                run.append(self.tokens[symbol])
                continue
            text += self.tokenizer.decoder.decode(run) if run else ""
            text += f" {symbol}" if symbol is not None else ""
            run = []
        return text


class Gpt2Bpe(HfTokenizer):
    """GPT-2's BPE, whose symbols are the ids of encoder.json, as fairseq writes them."""

    name = "gpt2"

    def __init__(self, encoder_json: str | os.PathLike, vocab_bpe: str | os.PathLike):
        with reading(f"{encoder_json}, {vocab_bpe}"):
            tokenizer = Tokenizer(models.BPE.from_file(str(encoder_json), str(vocab_bpe)))
        if foreign := {"<s>", MASK} & tokenizer.get_vocab().keys():
            raise ValueError(
                f"{encoder_json} has {min(foreign)}: it is a vocab.json of HF, whose ids are not those of "
                f"GPT-2's {GPT2_FILES[0]}: give the {HF_FILE} that AutoTokenizer's save_pretrained writes"
            )
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        self.files = Path(encoder_json), Path(vocab_bpe)
        self.tokenizer = self.inner = tokenizer
        self.tokens = {str(i): token for token, i in tokenizer.get_vocab().items()}


def is_special(symbol: str) -> bool:
    """<s>, <pad>, </s>, <unk>, <mask>."""
    return symbol in (*SPECIAL, MASK)


def unknown_token(model: dict) -> str | None:
    """The token of a tokenizer.json's model for what it has no other for."""
    if (index := model.get("unk_id")) is not None:
        return model["vocab"][index][0]
    return model.get("unk_token")


def _steps(settings: dict | None, name: str) -> list[dict]:
    """The single steps of a normalizer or a pre-tokenizer."""
    if settings is None or settings["type"] != "Sequence":
        return [settings] if settings else []
    return [step for inner in settings[name] for step in _steps(inner, name)]


def _blank_before(blank: str) -> dict:
    """A pre-tokenizer that puts a blank before a text that does not begin with one."""
    return {"type": "Metaspace", "replacement": blank, "prepend_scheme": "first", "split": False}


def make_codec(source: str | Sequence[str] | None, data: Path, dictionary: Dictionary) -> Codec:
    """The codec of a corpus.

    Args:
        source: "none"; "smiles"; a tokenizer.json; encoder.json and vocab.bpe; a folder that holds one of
            these; None to take "smiles" if scripts/prepare_smiles.py made the folder of the dictionary, or to
            look for these files there and in the folder above it, and else to take "none".
        data: folder of the ``dictionary``.

    Raises:
        FileNotFoundError: if a file is not there.
        ValueError: for another source, or if None is found where symbols are a BPE's ids or tokens.
    """
    paths = [source] if isinstance(source, (str, os.PathLike)) else list(source or [])
    if paths in (["none"], ["smiles"]):
        return Blanks() if paths == ["none"] else Smiles()
    if paths and str(paths[0]) == "gpt2":
        paths = paths[1:]
    if paths:
        return read_bpe(*paths)
    if smiles_form(data) is not None:
        return Smiles()
    for folder in (data, data.resolve().parent):
        if files := _files_in(folder):
            return read_bpe(*files)
    symbols = dictionary.symbols[dictionary.nspecial : -1]
    if len(symbols) > 1000 and sum(s.isdigit() for s in symbols) > 0.9 * len(symbols):
        raise ValueError(
            f"the dictionary in {data} has GPT-2 BPE ids for symbols: "
            "give the files of the BPE (--bpe encoder.json vocab.bpe)"
        )
    marked = sum(len(s) > 1 and s.startswith(HfTokenizer.STARTS) for s in symbols)
    if len(symbols) > 50 and marked > 0.1 * len(symbols):
        raise ValueError(
            f"the dictionary in {data} has tokens of a BPE for symbols, such as {symbols[-1]!r}: "
            "give its tokenizer.json (--bpe tokenizer.json)"
        )
    return Blanks()


def read_bpe(*paths: str | os.PathLike) -> HfTokenizer:
    """The BPE in encoder.json and vocab.bpe, in a tokenizer.json, or in a folder with either.

    Raises:
        FileNotFoundError: if a file is not there.
        ValueError: if the files are damaged, or do not belong together.
    """
    if len(paths) == 1 and Path(paths[0]).is_dir():
        paths = _files_in(Path(paths[0])) or [Path(paths[0], HF_FILE)]
    return Gpt2Bpe(*paths) if len(paths) == 2 else HfTokenizer(*paths)


def _files_in(folder: Path) -> list[Path]:
    """The files of the BPE in a folder; [] if it has none."""
    for names in ((HF_FILE,), GPT2_FILES):
        if all((folder / name).is_file() for name in names):
            return [folder / name for name in names]
    return []


def smiles_form(folder: Path) -> str | None:
    """``--smiles`` of the prepare_smiles.py that made a folder, "canonical" or "as-given", or None."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    with reading(path):
        manifest = json.loads(path.read_text(encoding="utf-8"))
    settings = manifest.get("settings") if isinstance(manifest, dict) else None
    return settings.get("smiles") if isinstance(settings, dict) else None  # it may be another program's


def encode_with_masks(text: str, codec: Codec) -> list[str]:
    """As :func:`encode_text`, of a sentence that has a mask. Raises ValueError if there is none, too."""
    if MASK not in text:
        hint = ": write it <mask>, not [MASK]" if "[mask]" in text.lower() else ""
        raise ValueError(f"no {MASK} in {text!r}{hint}; e.g. {codec.example!r}")
    return encode_text(text, codec)


def encode_text(text: str, codec: Codec) -> list[str]:
    """The symbols of a text; each ``<mask>`` is one symbol, and blanks before one belong to its word. Raises
    ValueError for a symbol that is kept for the sentence's ends."""
    symbols, (*before, last) = [], text.split(MASK)
    for i, piece in enumerate([*map(str.rstrip, before), last]):
        symbols += [MASK] if i > 0 else []
        symbols += codec.encode(piece, first=i == 0) if piece else []
    reserved = [s for s in symbols if s in ("<s>", "</s>", "<pad>")]
    if reserved:
        raise ValueError(f"{reserved[0]} in {text!r}: the sentence is given <s> and </s>, leave them out")
    return symbols
