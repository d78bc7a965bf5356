"""README's commands, in its order, with nothing installed but what README installs."""

import contextlib
import csv
import os
import random
import re
import shlex
import subprocess
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import builders, glue, squad
from tests.support.molecules import molecules
from tests.test_docs import PAGES, ROOT, called, commands

README = PAGES[0]
# Packages of which README says nothing are not found.
HIDE = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def visible(name, *args):
    return None if name.partition(".")[0] in HIDDEN else find(name, *args)
PathFinder.find_spec = visible
"""
# words of README -> what takes seconds on a CPU
SMALLER = {"base": "smoke", "paper": "smoke"}
TRAINING = {"pretrain_": "--cpu --updates 3", "finetune_": "--cpu --max-epoch 1 --batch-size 8"}
# minutes; Snakemake is an extra; the authors' command is run by test_pretraining.py
NOT_RUN = ("quickstart.sh", "setup_env.sh", "test.sh", "snakemake", "fairseq-train")


def hidden() -> list[str]:
    """Modules of the distributions that pip does not install with this package alone."""
    known, todo = set(), ["exlm", "torch", "pip", "setuptools", "wheel", "cython"]
    while todo:
        if (name := canonicalize_name(todo.pop())) not in known:
            known.add(name)
            with contextlib.suppress(metadata.PackageNotFoundError):  # of another platform
                needs = map(Requirement, metadata.requires(name) or [])
                todo += [one.name for one in needs if not one.marker or one.marker.evaluate({"extra": ""})]
    owners = metadata.packages_distributions().items()
    return sorted(module for module, owning in owners if not known & {*map(canonicalize_name, owning)})


@pytest.fixture
def folder(tmp_path):
    """A folder with this clone's code, as links, and small files by the names that README uses."""
    for name in ("scripts", "fs_plugins", "configs", "pretrained"):
        (tmp_path / name).symlink_to(ROOT / name)
    draw = random.Random(3)
    lines = [" ".join(draw.choices(glue.WORDS, k=11)) + " inn." for _ in range(300)]
    for i in range(60):  # each a document, or a book
        text = "\n\n".join(lines[5 * i : 5 * i + 5])
        builders.write_file(tmp_path / ("wiki" if i % 2 else "books") / f"{i}.txt", text)
    builders.write_gpt2(tmp_path / "gpt2", [("t", "h"), ("i", "n")])
    (tmp_path / "gpt2" / "dict.txt").write_text("".join(f"{i} 1\n" for i in range(258)))
    glue.write_task(tmp_path / "glue", "RTE")
    for name in ("train-v2.0.json", "dev-v2.0.json"):
        asked = [squad.question(f"{name}{i}", [("inn", lines[0].index("inn"))]) for i in range(9)]
        builders.write_file(tmp_path / name, squad.squad_json(*asked, context=lines[0]))
    some = molecules(90)
    builders.write_file(tmp_path / "zinc.txt.gz", "\n".join(some[:40]))
    builders.write_file(tmp_path / "test.smi", "\n".join(some[40:50]))
    tables = {"chembl.csv": "canonical_smiles", "BBBP.csv": "smiles", "molecules.csv": "smiles"}
    for name, column in tables.items():
        with open(tmp_path / name, "w", newline="") as file:
            csv.writer(file).writerows([(column, "p_np"), *((one, i % 2) for i, one in enumerate(some))])
    return tmp_path


@pytest.mark.slow
def test_commands_run_without_extras(folder):
    """Of README, but for those that take minutes, and for transformers, which it names where it needs it."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(f"HIDDEN = {set(hidden())!r}\n{HIDE}")
    path = os.pathsep.join(map(str, (folder / "site", ROOT, ROOT / "scripts")))
    environment = {**os.environ, "PYTHONPATH": path, "EXLM_PYTHON": sys.executable, "EXLM_NO_CUDA": "1"}
    text = README.read_text(encoding="utf-8")
    shown = [words for words in commands(README) if called(words)]
    shown += [shlex.split(line) for line in re.findall(r"`(python scripts/export[^`]*)`", text)]
    ran = []
    for words in shown:
        name = called(words)[0].rpartition("/")[2]
        if name in NOT_RUN:
            continue
        words = [SMALLER.get(word, word) for word in words]
        words = ["checkpoints/exlm/checkpoint_best.pt" if w == "CHECKPOINT" else w for w in words]
        words += next((flags for start, flags in TRAINING.items() if name.startswith(start)), "").split()
        program = [sys.executable, *words[1:]] if words[0] == "python" else words
        result = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, f"{shlex.join(words)}\n{result.stdout[-3000:]}{result.stderr[-3000:]}"
        ran.append(name)
    assert {"pretrain_text.sh", "molecules.py", "export_huggingface.py"} <= {*ran}
    (code,) = re.findall(r"```python\n(from fs_plugins.*?)```", text, flags=re.DOTALL)
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True)
    assert (folder / "FOLDER" / "config.json").is_file()
