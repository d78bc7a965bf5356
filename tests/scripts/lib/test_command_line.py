"""Exit statuses, types of arguments, flags of files and command lines."""

import argparse
import os
import signal
import subprocess
import sys

import pytest
from lib.command_line import Flags, UserError, argument_parser, count, positive, script, share
from lib.files import ROOT

from tests.support.builders import write_file


def test_statuses(capsys):
    def fail(error):
        raise error

    assert script(lambda: None)() == 0 and script(lambda n: n)(3) == 3
    assert script(fail)(UserError("no a: give b")) == 2
    assert script(fail)(PermissionError(13, "Permission denied", "a\x1b[2J\u202e.txt\n")) == 2
    assert script(fail)(UserError("a\x9b\n\tb")) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: no a: give b",
        *("error: a\\x1b[2J\\u202e.txt", ": Permission denied: give another file or folder"),
        *("error: a\\x9b", "\tb"),
    ]
    for interrupt in (lambda: os.kill(os.getpid(), signal.SIGTERM), lambda: fail(KeyboardInterrupt)):
        assert script(interrupt)() == 130
        assert capsys.readouterr().err == "\ninterrupted: rerun the same command\n"
    with pytest.raises(TypeError):
        script(fail)(TypeError())
    parser = argument_parser("")
    parser.add_argument("output")
    parser.add_argument("--workers")
    for words in ([""], ["a", "--work", "3"]):  # flags are not abbreviated, as they may be fairseq's
        with pytest.raises(SystemExit):
            parser.parse_args(words)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (positive, {"1": 1, "20": 20}, ["0", "-1", "1.5", "", "2147483648", "1_0"]),
        (count, {"0": 0, "7": 7}, ["-1"]),
        (share, {"0.5": 0.5, "1e-9": 1e-9}, ["0", "1", "nan", "0.1_5"]),
    ],
)
def test_types(kind, good, bad):
    assert {text: kind(text) for text in good} == good
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}': give "):
            kind(text)


def test_flags_and_numbers_that_cannot_be():
    """Whatever can be is in recorded commands."""
    flags = Flags.of(["--n", "3", "--zero", "0", "--minus", "-1"])
    assert flags.whole("--none", 7) == 7 and flags.proportion("--zero") == 0
    for read, name in ((flags.whole, "--zero"), (flags.proportion, "--n"), (flags.proportion, "--minus")):
        with pytest.raises(UserError, match=f"{name} '{flags.value(name)}'"):
            read(name)


def test_scripts_take_the_modules_of_their_clone(tmp_path):
    write_file(tmp_path / "fs_plugins" / "__init__.py", "")
    ask = "import lib, importlib.util as util; print(util.find_spec('fs_plugins').origin)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", ask]
    found = subprocess.check_output(command, cwd=ROOT / "scripts", env=environment, text=True)
    assert found.strip() == str(ROOT / "fs_plugins" / "__init__.py")
