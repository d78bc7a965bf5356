"""The tree: imports run one way, nothing prints, all is as the names say."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "fs_plugins"
MODULES = sorted(PACKAGE.rglob("*.py"))

# what a module of each folder may import of the package (its own folder besides)
ALLOWED = {
    "compat.py": set(),
    "data": set(),
    "tasks": {"data"},
    "modules": {"data"},
    "models": {"modules", "data"},
    "criterions": {"custom_ops"},
    "custom_ops": set(),
    "analysis": {"models", "modules", "data", "custom_ops", "tasks"},
}


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_every_folder_is_known():
    folders = {p.relative_to(PACKAGE).parts[0] for p in MODULES} - {"__init__.py"}
    assert folders == set(ALLOWED)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_run_one_way(path):
    folder = path.relative_to(PACKAGE).parts[0]
    names = imported(path)
    if folder != "__init__.py":
        own = {name.split(".")[1] for name in names if name.startswith("fs_plugins.")}
        assert own <= ALLOWED[folder] | {folder}
    assert not any(name.split(".")[0] in ("scripts", "tests") for name in names)
    if folder == "custom_ops":
        assert not any(name.split(".")[0] == "fairseq" for name in names)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_logging_instead_of_printing(path):
    calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    assert not [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))
