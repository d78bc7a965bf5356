"""Exit statuses, and whose modules a script takes."""

import os
import signal
import subprocess
import sys

import pytest
from lib.command_line import UserError, argument_parser, script
from lib.files import ROOT

from tests.support.builders import write_file


def test_statuses(capsys):
    def fail(error):
        raise error

    assert script(lambda: None)() == 0 and script(lambda n: n)(3) == 3
    assert script(fail)(UserError("no a: give b")) == 2
    assert script(fail)(PermissionError(13, "Permission denied", "a\x1b[2J\u202e.txt\n")) == 2
    assert script(fail)(UserError("a\x9b\n\tb")) == 2
    denied = "a\\x1b[2J\\u202e.txt\n: Permission denied: give another file or folder"
    assert capsys.readouterr().err == f"error: no a: give b\nerror: {denied}\nerror: a\\x9b\n\tb\n"
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


def test_scripts_take_the_modules_of_their_clone(tmp_path):
    write_file(tmp_path / "fs_plugins" / "__init__.py", "")
    ask = "import lib, importlib.util as util; print(util.find_spec('fs_plugins').origin)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", ask]
    found = subprocess.check_output(command, cwd=ROOT / "scripts", env=environment, text=True)
    assert found.strip() == str(ROOT / "fs_plugins" / "__init__.py")
