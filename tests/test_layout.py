"""The tree: imports run one way, and what an export copies needs little."""

import ast
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from fs_plugins.huggingface.code_files import CODE, CORE

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fs_plugins"
SCRIPTS = ROOT / "scripts"
LIBRARY = sorted((SCRIPTS / "lib").rglob("*.py"))
ENTRIES = sorted(SCRIPTS.glob("*.py"))

# the rooms of the package, each of which imports only those before it
ROOMS = ["files", "model_outputs", "data", "exlm", "custom_ops", "speed", "tasks", "finetuning", "models"]
ROOMS += ["criterions", "fairseq_patches", "checkpoint_settings", "checkpoint_folder", "checkpoint"]
ROOMS += ["huggingface", "inference", "measures"]
# rooms of which they import others than these before them
ALLOWED = {"exlm": set(), "custom_ops": {"exlm"}, "data": {"files"}, "tasks": {"data", "model_outputs"}}
ALLOWED |= {"criterions": {"exlm", "custom_ops", "speed", "model_outputs"}}


@cache
def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def roots(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(path)}


def test_imports_run_one_way():
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        assert not roots(path) & {"lib", "scripts", "tests"}, path
        if room == "__init__":
            continue
        needs = {name.split(".")[1] for name in imported(path) if name.startswith("fs_plugins.")} - {room}
        assert needs <= ALLOWED.get(room, {*ROOMS[: ROOMS.index(room)]}), path
        assert room not in ("exlm", "custom_ops") or "fairseq" not in roots(path), path


def test_what_is_copied_needs_torch_and_transformers_alone():
    """And where the package is installed, the compiled operator; tests/huggingface has the copies."""
    core = {*sys.stdlib_module_names, "torch", "fs_plugins"}
    for path in CODE:
        assert roots(path) <= core | (set() if path in CORE else {"transformers", "huggingface_hub"}), path


def test_scripts_import_the_library_and_not_each_other():
    others = {entry.stem for entry in ENTRIES}
    for path in [*ENTRIES, *LIBRARY]:
        assert not roots(path) & (others | {"scripts", "tests"}), path


def test_the_library_has_no_circles():
    """Neither of modules nor of folders; what reads data needs nothing of what trains."""
    names = {".".join(path.relative_to(SCRIPTS).with_suffix("").parts): path for path in LIBRARY}
    modules, rooms = {}, {}
    for name, path in names.items():
        # a module that is named, or one of whose names is
        needs = {m for other in imported(path) for m in (other, other.rpartition(".")[0]) if m in names}
        modules[name], room = needs - {name}, name.split(".")[1]
        rooms.setdefault(room, set()).update({m.split(".")[1] for m in needs} - {room})
    for graph in (modules, rooms):
        TopologicalSorter(graph).prepare()
    assert rooms["data"] <= {"command_line", "files"}


def test_all_that_is_written_is_whole():
    """By ``atomic`` of fs_plugins/files.py; but for logs, which grow, and what ``new_folder`` renames."""
    found = set()
    for path in (*PACKAGE.rglob("*.py"), *SCRIPTS.rglob("*.py")):
        for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
            name, words = ast.unparse(call.func), {ast.unparse(word).strip("'") for word in call.args}
            opens = name.endswith("open") and any({*mode} & {*"wax"} and len(mode) < 4 for mode in words)
            if opens or (name.endswith((".write_text", ".write_bytes")) and not name.startswith("files.")):
                found.add(path.name)
    assert found <= {"binarise.py"}
