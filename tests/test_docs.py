"""The commands in README and docs: their scripts exist and know their options, their modules can be found.

`python -m tests.documentation` runs them.
"""

import importlib.util
import re
from pathlib import Path

import pytest
from fairseq import options

import fs_plugins  # noqa: F401  (registers models, tasks and criterions)
from tests.documentation import __main__ as documentation
from tests.documentation.pages import PAGES, ROOT, commands, simple_commands

OPTION = re.compile(r"--[a-z][a-z0-9-]+")


def scripts_of(words: list[str]) -> list[str]:
    """What a command calls of this project: scripts, modules, fairseq-train."""
    called = [
        word for word in words if word.startswith(("scripts/", "tests/")) and word.endswith((".py", ".sh"))
    ]
    called += [words[i + 1] for i, word in enumerate(words[:-1]) if word == "-m" and "_" in words[i + 1]]
    return called + [word for word in words if word == "fairseq-train"]


COMMANDS = [
    pytest.param(words, id=f"{page.name}-{command.line}-{i}")
    for page in PAGES
    for command in commands(page)
    if command.language == "bash"
    for i, words in enumerate(simple_commands(command.text))
    if scripts_of(words)
]


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Every option of the project's command lines, and of fairseq-train with the plugin."""
    found = set()
    for path in [*(ROOT / "scripts").rglob("*.py"), *(ROOT / "scripts").rglob("*.sh")]:
        found |= set(OPTION.findall(path.read_text(encoding="utf-8")))
    for path in (ROOT / "fs_plugins").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found |= set(OPTION.findall(text))
        found |= {f"--{name.replace('_', '-')}" for name in re.findall(r"^    (\w+): ", text, re.MULTILINE)}
    for arch in ("exlm_base", "p_roberta_base"):
        parser = options.get_training_parser()
        arguments = ["data", "--arch", arch, "--task", "masked_lm", "--optimizer", "adam"]
        arguments += ["--lr-scheduler", "polynomial_decay"]
        args = vars(options.parse_args_and_arch(parser, arguments))
        found |= {f"--{name.replace('_', '-')}" for name in args}
    return found


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_calls_what_exists_with_options_it_knows(words, known):
    for name in scripts_of(words):
        if "/" in name:
            assert (ROOT / name).is_file()
        elif name != "fairseq-train" and name.split(".")[0] in ("fs_plugins", "lib"):
            assert importlib.util.find_spec(name)
    if words[0] in ("bash", "python", "fairseq-train"):
        assert {word.split("=")[0] for word in words if OPTION.match(word)} <= known


def test_the_pages_have_commands():
    assert len(COMMANDS) > 40


def test_what_is_not_run_is_on_a_page():
    texts = [command.text for page in PAGES for command in commands(page)]
    for table in (documentation.NOT_RUN, documentation.DRY_RUNS, documentation.NEEDS):
        for pattern in table:
            assert any(re.search(pattern, text) for text in texts), pattern
    assert documentation.PRESUMED.keys() <= {str(page.relative_to(ROOT)) for page in PAGES}


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_files_exist(page):
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text):
        if target.startswith("http"):
            continue
        linked = page.parent / target if target else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"
    for name in re.findall(r"`((?:scripts|fs_plugins|configs|tests|docs)/[\w./-]+?)`", text):
        assert "*" in name or "…" in name or (ROOT / name).exists(), name
