"""The quickstart's corpus: English that comes with every CPython, and a small BPE trained on it.

The documentation topics (`pydoc_data/topics.py`, the language reference) and the docstrings of the standard
library are read from source, nothing is imported. What is not prose is dropped: prompts, signatures, tables,
code, and paragraphs seen before. A document is a topic or a module; some 8% of them, chosen by their names,
are kept for validation.

    python scripts/quickstart_corpus.py runs/quickstart

writes there corpus/{train,valid}.txt (a document a line), tokenizer.json (HF tokenizers) and
encoded/{train,valid}.bpe (the same lines as tokens, for fairseq-preprocess).
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import inspect
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

VOCABULARY = 1000
VALIDATION_SHARE = 0.08
LEAST_WORDS = 6
LEAST_PLAIN_SHARE = 0.8
LEAST_CORPUS_WORDS = 100_000
SKIPPED_FOLDERS = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}

_PROMPT = re.compile(r"^\s*(>>>|\.\.\.|\$ |In \[)")
_TABLE = re.compile(r"::=|^\s*[+|=]|[|]\s*$|^\s*([-=~*^#+_])\1{2,}")
_SIGNATURE = re.compile(r"^\s*[\w.]+\(.*\)?\s*(->.*)?:?$")
_MARKUP = re.compile(r":\w+(?::\w+)?:(?=`)|[`*]")
_BULLET = re.compile(r"^\s*(?:[-*•+o]|\(?\d+[.)])\s+")
_PROSE = re.compile(r"[\"'(“]*[A-Za-z].*[A-Za-z.!?:\"')”]")
_PLAIN_WORD = re.compile(r"[\"'(“‘\[]*[A-Za-z][A-Za-z’'-]*[\"')”’\]]*[.,;:!?]*[\"')”]*")


def clean_paragraph(lines: list[str]) -> str | None:
    """The paragraph as one line of prose, or None where it is something else."""
    if any(_PROMPT.search(line) or _TABLE.search(line) for line in lines):
        return None
    kept = [line for line in lines if not _SIGNATURE.match(line)]
    text = _MARKUP.sub("", _BULLET.sub("", " ".join(kept)))
    text = " ".join(text.split())
    words = text.split(" ")
    if len(words) < LEAST_WORDS or _PROSE.fullmatch(text) is None:
        return None
    plain = sum(_PLAIN_WORD.fullmatch(word) is not None for word in words)
    return text if plain >= LEAST_PLAIN_SHARE * len(words) else None


def paragraphs(text: str) -> list[str]:
    """The paragraphs of prose of a documentation text, in order; a list item counts as a paragraph."""
    found, lines = [], []
    for line in [*inspect.cleandoc(text).splitlines(), ""]:
        if (not line.strip() or _BULLET.match(line)) and lines:
            found.append(clean_paragraph(lines))
            lines = []
        if line.strip():
            lines.append(line)
    return [paragraph for paragraph in found if paragraph is not None]


def docstrings(source: str) -> list[str]:
    """All docstrings of a module's source, in the order they stand in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old escapes in strings are none of our business
        tree = ast.parse(source)
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [
        (node.body[0].lineno, ast.get_docstring(node, clean=False))
        for node in ast.walk(tree)
        if isinstance(node, owners) and ast.get_docstring(node, clean=False)
    ]
    return [text for _, text in sorted(texts)]


def topics(source: str) -> dict[str, str]:
    """The documentation topics: the one dictionary that `pydoc_data/topics.py` assigns."""
    for node in ast.parse(source).body:
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if isinstance(value, ast.Dict):
            return ast.literal_eval(value)
    raise ValueError(
        "pydoc_data/topics.py assigns no dictionary: this Python keeps its topics in another form"
    )


def read_documents(library: Path) -> Iterator[tuple[str, list[str]]]:
    """(name, paragraphs) of the topics, then of each module of the library, always in the same order."""
    topics_file = library / "pydoc_data" / "topics.py"
    if topics_file.exists():
        for name, text in sorted(topics(topics_file.read_text(encoding="utf-8")).items()):
            yield f"topic {name}", paragraphs(text)
    for path in sorted(library.rglob("*.py")):
        inner = path.relative_to(library)
        if SKIPPED_FOLDERS.isdisjoint(inner.parts) and path != topics_file:
            try:
                texts = docstrings(path.read_text(encoding="utf-8"))
            except (SyntaxError, ValueError):  # templates and test data that are no Python, or not in UTF-8
                continue
            yield inner.as_posix(), [paragraph for text in texts for paragraph in paragraphs(text)]


def without_duplicates(documents: Iterable[tuple[str, list[str]]]) -> Iterator[tuple[str, list[str]]]:
    """Each paragraph where it first stands, case and numbers aside; documents that keep none are dropped."""
    seen = set()
    for name, texts in documents:
        kept = []
        for text in texts:
            key = re.sub(r"[\W\d_]+", " ", text).strip().lower()
            if key not in seen:
                seen.add(key)
                kept.append(text)
        if kept:
            yield name, kept


def is_validation(name: str) -> bool:
    """Decided by the name alone: documents that come or go move no other between the splits."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") < VALIDATION_SHARE * 2**32


def train_tokenizer(lines: list[str], vocabulary: int):
    """A byte-level BPE: any text can be encoded, so there are no unknown words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def encode_lines(tokenizer, lines: list[str]) -> list[str]:
    """Tokens joined by blanks, as fairseq-preprocess reads them."""
    return [" ".join(encoding.tokens) for encoding in tokenizer.encode_batch(lines)]


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path, help="the folder to write into")
    parser.add_argument(
        "--vocabulary", type=int, default=VOCABULARY, help="size of the BPE (default: %(default)s)"
    )
    args = parser.parse_args()

    library = Path(sysconfig.get_path("stdlib"))
    splits: dict[str, list[str]] = {"train": [], "valid": []}
    for name, texts in without_duplicates(read_documents(library)):
        splits["valid" if is_validation(name) else "train"].append(" ".join(texts))
    words = sum(len(line.split()) for lines in splits.values() for line in lines)
    if words < LEAST_CORPUS_WORDS:
        raise SystemExit(
            f"error: the sources of the standard library at {library} have only {words:,} words of prose, "
            f"and a corpus needs {LEAST_CORPUS_WORDS:,}: this Python comes without them. "
            "Use another: PYTHON=python3.12 bash scripts/quickstart.sh"
        )

    tokenizer = train_tokenizer(splits["train"], args.vocabulary)
    args.output.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(args.output / "tokenizer.json"))
    for split, lines in splits.items():
        write_lines(args.output / "corpus" / f"{split}.txt", lines)
        encoded = encode_lines(tokenizer, lines)
        write_lines(args.output / "encoded" / f"{split}.bpe", encoded)
        tokens = sum(len(line.split()) for line in encoded)
        print(f"  {split}: {len(lines):,} documents, {tokens:,} tokens")


if __name__ == "__main__":
    main()
