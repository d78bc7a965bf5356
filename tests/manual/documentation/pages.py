"""The commands of README.md and docs/*.md."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Command(NamedTuple):
    """A block of Python, or a command of a shell block: a pipeline, a list or a compound command."""

    language: str
    line: int  # of the page
    text: str


def commands(page: Path) -> list[Command]:
    """Those of a page, in its order."""
    text, found = page.read_text(encoding="utf-8"), []
    for block in BLOCK.finditer(text):
        language, content = block.groups()
        line = text.count("\n", 0, block.start(2)) + 1
        found += shell_commands(content, line) if language == "bash" else [Command(language, line, content)]
    return found


def shell_commands(block: str, line: int) -> Iterator[Command]:
    begun, first = "", line
    for number, row in enumerate(block.splitlines(), line):
        if not begun and (not row.strip() or row.startswith("#")):
            continue
        begun, first = (f"{begun}\n{row}", first) if begun else (row, number)
        if not row.endswith("\\") and _complete(begun):
            yield Command("bash", first, begun)
            begun = ""
    if begun:
        raise ValueError(f"line {first}: a command without an end:\n{begun}")


def _complete(text: str) -> bool:
    return subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True).returncode == 0


def simple_commands(text: str) -> list[list[str]]:
    """The words of each simple command of a shell command."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=";&|\n")
    lexer.whitespace, lexer.whitespace_split = " \t", True
    found: list[list[str]] = [[]]
    for word in lexer:
        found.append([]) if set(word) <= set(";&|\n") else found[-1].append(word)
    return [words for words in found if words]
