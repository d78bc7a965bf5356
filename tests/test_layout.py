"""The tree: imports run one way, nothing prints, all is as the names say."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fs_plugins"
MODULES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = ROOT / "scripts"
LIBRARY = sorted((SCRIPTS / "lib").rglob("*.py"))
ENTRIES = sorted(SCRIPTS.glob("*.py"))

# what a module of each folder may import of the package (its own folder besides)
ALLOWED = {
    "compat.py": {"models"},
    "data": set(),
    "tasks": {"data"},
    "modules": {"data"},
    "models": {"modules", "data"},
    "criterions": {"custom_ops", "modules", "data"},
    "custom_ops": set(),
    "optim": set(),
    "analysis": {"models", "modules", "data", "custom_ops"},
    "huggingface": {"analysis", "models", "modules", "data", "custom_ops"},
}
# what an export copies, to be imported where there is neither this package nor fairseq
COPIED = [
    *sorted((PACKAGE / "huggingface").glob("configuration_*.py")),
    *sorted((PACKAGE / "huggingface").glob("modeling_*.py")),
    PACKAGE / "custom_ops" / "dag_reference.py",
    PACKAGE / "modules" / "state_expansion.py",
    PACKAGE / "modules" / "marginals.py",
    PACKAGE / "modules" / "transition_head.py",
]


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or path in COPIED, f"{path}: relative import"
            if node.level:  # beside it in an export
                continue
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


@pytest.mark.parametrize("path", COPIED, ids=lambda p: p.name)
def test_what_is_copied_needs_torch_and_transformers_alone(path):
    from fs_plugins.huggingface.export import CODE

    packages = {name.split(".")[0] for name in imported(path)}
    assert packages <= {*sys.stdlib_module_names, "torch", "transformers"}
    assert set(CODE) == set(COPIED)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_logging_instead_of_printing(path):
    calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    assert not [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def module_of(path: Path) -> str:
    """A module of lib by its dotted name."""
    return ".".join(path.relative_to(SCRIPTS).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", ENTRIES, ids=lambda p: p.name)
def test_entries_import_libraries_and_not_each_other(path):
    others = {entry.stem for entry in ENTRIES}
    first = {name.split(".")[0] for name in imported(path)}
    assert not first & (others | {"scripts", "tests"})


@pytest.mark.parametrize("path", [*ENTRIES, *LIBRARY], ids=lambda p: str(p.relative_to(SCRIPTS)))
def test_scripts_leave_the_search_path_alone(path):
    tree = ast.parse(path.read_text())
    assert not [
        n.lineno
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute)
        and n.attr == "path"
        and isinstance(n.value, ast.Name)
        and n.value.id == "sys"
        and isinstance(n.ctx, ast.Store)
    ]
    assert "sys.path.insert" not in path.read_text() and "sys.path.append" not in path.read_text()
    assert not any(name.split(".")[0] in ("scripts", "tests") for name in imported(path))
    assert ast.get_docstring(tree)


def test_the_library_has_no_circles():
    """No module imports itself by way of others."""
    modules = {module_of(path): path for path in LIBRARY}
    needs = {}
    for name, path in modules.items():
        found = set()
        for other in imported(path):
            while other not in modules and "." in other:
                other = other.rpartition(".")[0]
            if other in modules and other != name:
                found.add(other)
        # a package's own __init__ holds a docstring alone
        needs[name] = {other for other in found if modules[other].name != "__init__.py"}
    while leaves := [name for name, wanted in needs.items() if not wanted & needs.keys()]:
        for name in leaves:
            del needs[name]
    assert not needs, f"these import each other: {sorted(needs)}"


def test_rooms_have_no_circles():
    """Nor does a folder of lib, such as glue, import itself by way of other folders."""

    def room(name: str) -> str:
        return name.split(".")[1]

    needs: dict[str, set[str]] = {}
    for path in LIBRARY:
        name = module_of(path)
        if name != "lib":
            found = {room(other) for other in imported(path) if other.startswith("lib.")}
            needs.setdefault(room(name), set()).update(found - {room(name)})
    while leaves := [name for name, wanted in needs.items() if not wanted & needs.keys()]:
        for name in leaves:
            del needs[name]
    assert not needs, f"these import each other: {needs}"


def test_shell_pages_are_short():
    """A page in which the training is seen, without arithmetic or parsing."""
    for path in SCRIPTS.glob("*.sh"):
        if path.name.startswith(("pretrain_", "finetune_")):
            text = path.read_text()
            assert len(text.splitlines()) <= 45 and "fairseq-train @data " in text
            assert "$((" not in text and "case " not in text and "shift" not in text
