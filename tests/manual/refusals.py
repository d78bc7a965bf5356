"""Prints which share of the statements refuse something, by folder and by file:

    python -m tests.manual.refusals [FOLDER ...]

A refusal is a raise or an assert, an ``if`` or an ``except`` that does nothing but prepare one, and a
``check_*`` function or a call of one. CONTRIBUTING.md says which refusals are worth their lines.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECK = ("check", "_check", "_refuse")


def nested(node: ast.AST) -> list[ast.AST]:
    """Returns a statement or ``except`` clause and all in it; imports and docstrings are not counted."""
    inner = [n for n in ast.walk(node) if isinstance(n, ast.stmt | ast.ExceptHandler)]
    inner = [n for n in inner if not isinstance(n, ast.Import | ast.ImportFrom)]
    return [n for n in inner if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]


def refuses(node: ast.AST) -> bool:
    """Whether a statement is a refusal as a whole, or there for refusals alone."""
    if isinstance(node, ast.FunctionDef):
        return node.name.startswith(CHECK)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        return getattr(called, "id", getattr(called, "attr", "")).startswith(CHECK)
    if isinstance(node, ast.If | ast.For | ast.ExceptHandler) and not getattr(node, "orelse", None):
        *before, last = node.body
        return refuses(last) and all(isinstance(n, ast.Assign | ast.AugAssign) or refuses(n) for n in before)
    return isinstance(node, ast.Raise | ast.Assert)


def share_of(path: Path) -> tuple[int, int]:
    """The numbers of refusing statements and of all statements in a file."""
    statements = nested(ast.parse(path.read_text(encoding="utf-8")))
    refusing = {inner for node in statements if refuses(node) for inner in nested(node)}
    tries = (node for node in statements if isinstance(node, ast.Try) and node.handlers)
    refusing.update(node for node in tries if all(map(refuses, node.handlers)))
    return len(refusing), len(statements)


if __name__ == "__main__":
    for folder in sys.argv[1:] or ("fs_plugins", "scripts"):
        files = {path: share_of(path) for path in sorted((ROOT / folder).rglob("*.py"))}
        refusing, statements = (sum(numbers) for numbers in zip(*files.values(), strict=True))
        for path, (some, every) in sorted(files.items(), key=lambda item: -item[1][0]):
            print(f"{some:5} of {every:4} {some / max(every, 1):6.1%}  {path.relative_to(ROOT)}")
        print(f"{refusing:5} of {statements:4} {refusing / statements:6.1%}  {folder}\n")
