"""English that comes with every CPython: documentation topics, and docstrings of the standard library.

    python -m lib.data.python_docs corpus.txt

writes a paragraph a line and an empty line after each document (a topic or a module), as prepare_text.py
reads. Sources are parsed, never run. What is not prose (signatures, tables, code) is left out, and so are
repeated paragraphs.
"""

import ast
import inspect
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

from lib.command_line import script
from lib.files import write_lines

LEAST_WORDS = 6  # fewest words of a paragraph
LEAST_PLAIN_SHARE = 0.8  # least share of plain words
SKIPPED_FOLDERS = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}

_PARAGRAPH_END = re.compile(r"\n\s*(?:[-*•+o]|\(?\d+[.)])\s+|\n\s*\n")  # a list item, or an empty line
_MARKUP = re.compile(r":\w+(?::\w+)?:(?=`)|[`*]")
_CODE = re.compile(r">>>|::=|[-=~#+_]{3}|\w\(.*\) ->")
_PROSE = re.compile(r"[\"'(“]*[A-Za-z].*[.!?:][\"')”]*")
_PLAIN_WORD = re.compile(r"[\"'(“‘\[]*[A-Za-z][A-Za-z’'-]*[\"')”’\]]*[.,;:!?]*[\"')”]*")


def paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs of prose in a documentation text, each on one line."""
    for part in _PARAGRAPH_END.split(inspect.cleandoc(text)):
        words = _MARKUP.sub("", part).split()
        plain = sum(_PLAIN_WORD.fullmatch(word) is not None for word in words)
        paragraph = " ".join(words)
        is_prose = len(words) >= LEAST_WORDS and plain >= LEAST_PLAIN_SHARE * len(words)
        if is_prose and _PROSE.fullmatch(paragraph) and not _CODE.search(paragraph):
            yield paragraph


def texts(path: Path) -> list[list[str]]:
    """Returns the documents of a source file: each topic of topics.py, or all docstrings of a module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in old modules
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError):  # templates and test data: not Python, or not UTF-8
            return []
    if path.name == "topics.py":
        tables = (node.value for node in tree.body if isinstance(getattr(node, "value", None), ast.Dict))
        return [[topic] for table in tables for _, topic in sorted(ast.literal_eval(table).items())]
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [[ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, owners)]]


def documents(library: Path) -> Iterator[list[str]]:
    """Yields the paragraphs of each document of a library, each paragraph once; always in the same order."""
    seen: set[str] = set()
    for path in sorted(library.rglob("*.py")):
        if SKIPPED_FOLDERS.isdisjoint(path.relative_to(library).parts):
            for document in texts(path):
                # the same for paragraphs that differ in case and numbers only
                by_key = {
                    re.sub(r"[\W\d_]+", " ", paragraph).strip().lower(): paragraph
                    for text in document
                    for paragraph in paragraphs(text)
                }
                yield [paragraph for key, paragraph in by_key.items() if key not in seen]
                seen |= by_key.keys()


@script
def main() -> None:
    library, output = Path(sysconfig.get_path("stdlib")), Path(sys.argv[1])
    kept = [document for document in documents(library) if document]
    words = sum(len(paragraph.split()) for document in kept for paragraph in document)
    write_lines(output, (line for document in kept for line in [*document, ""]))
    print(f"{output}: {len(kept):,} documents, {words:,} words")
