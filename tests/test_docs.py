"""The commands in README and docs: each script, module and target exists and knows its options."""

import contextlib
import io
import re
import runpy
import shlex
import sys
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
import torch
from fairseq import options
from lib.files import ROOT
from lib.workflow import plan, settings
from lib.workflow.runs import targets

import fs_plugins
from tests.support import pages

fs_plugins.register()

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OPTION = re.compile(r"--[a-z][a-z0-9-]+")


def commands(page: Path) -> list[list[str]]:
    """The words of each command in the shell blocks of a page."""
    found = [[]]
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        lines = re.sub(r"^\s*#.*|\s#.*", "", block, flags=re.MULTILINE)
        lexer = shlex.shlex(lines.replace("\\\n", " ") + "\n", posix=True, punctuation_chars=";&|\n")
        lexer.commenters, lexer.whitespace, lexer.whitespace_split = "", " \t", True
        for word in lexer:
            found.append([]) if set(word) <= set(";&|\n") else found[-1].append(word)
    return [words for words in found if words]


def called(words: list[str]) -> tuple[str, list[str]] | None:
    """The script or module of this project, fairseq-train or snakemake in a command, and its arguments."""
    for i, word in enumerate(words):
        if word in ("fairseq-train", "snakemake") or re.match(r"scripts/.*\.(py|sh)$", word):
            return word, words[i + 1 :]
        if i and words[i - 1] == "-m" and word.split(".")[0] in ("fs_plugins", "lib"):
            return word, words[i + 1 :]
    return None


CALLS = [(p, i, call) for p in PAGES for i, words in enumerate(commands(p)) if (call := called(words))]
COMMANDS = [pytest.param(*call, id=f"{page.name}-{i}-{Path(call[0]).name}") for page, i, call in CALLS]
assert len(COMMANDS) > 40


@cache
def options_of_fairseq() -> set[str]:
    found = set()
    for arch in ("exlm_base", "p_roberta_base"):
        words = f"data --task masked_lm --arch {arch} --optimizer adam --lr-scheduler polynomial_decay"
        parsed = options.parse_args_and_arch(options.get_training_parser(), words.split())
        found |= {f"--{name.replace('_', '-')}" for name in vars(parsed)}
    return found


@cache
def options_of(name: str, *command: str) -> set[str]:
    """Those in the help of a script or a module, or of one of its commands."""
    said = io.StringIO()
    argv = mock.patch.object(sys, "argv", [name, *command, "--help"])
    with contextlib.redirect_stdout(said), argv, pytest.raises(SystemExit) as ended:
        if name.endswith(".sh"):
            pages.resolve(Path(name).stem, "--help")
        elif "/" in name:
            runpy.run_path(str(ROOT / name), run_name="__main__")
        else:
            runpy.run_module(name, run_name="__main__")
    assert not ended.value.code
    return set(OPTION.findall(said.getvalue()))


@pytest.mark.parametrize(("name", "words"), COMMANDS)
def test_a_command_calls_what_exists_with_options_it_knows(name, words, monkeypatch):
    assert "/" not in name or (ROOT / name).is_file()
    used = {word.split("=")[0] for word in words if OPTION.match(word)}
    if name == "fairseq-train":
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # for --fp16
        options.parse_args_and_arch(options.get_training_parser(), words)
    elif name == "snakemake":
        check_targets(words)
    elif not used and name.endswith(".sh"):
        return  # without options, such as quickstart.sh
    else:
        trains = "/pretrain_" in name or "/finetune_" in name
        command = words[:1] if name == "fs_plugins.measures" else ()
        assert used <= options_of(name, *command) | (options_of_fairseq() if trains else set())


def check_targets(words: list[str]) -> None:
    """That Snakemake's targets are the workflow's or results of it, and that it takes their settings."""
    first = words.index("--config")
    given = [word for word in words[first + 1 :] if "=" in word and "$" not in word]
    given = given[: next((i for i, word in enumerate(given) if word.startswith("slurm")), len(given))]
    with mock.patch.multiple(Path, **dict.fromkeys(("exists", "is_dir", "is_file"), lambda path: True)):
        found = settings.read(dict(word.split("=", 1) for word in given))
        files = {Path(word) for word in words[:first] if word.endswith(".json")}
        assert not files or files <= {*plan.files(found, plan.STUDY)}
    asked = {word for word in words[:first] if re.match(r"[a-z]+\d*$", word)}
    assert asked <= {*targets(), plan.STUDY, plan.REPRODUCE}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_files_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert target.startswith("http") or (page.parent / target).exists(), target
    for name in re.findall(r"`((?:scripts|fs_plugins|configs|tests|docs)/[\w./-]+?)`", text):
        assert "*" in name or "…" in name or (ROOT / name).exists(), name
