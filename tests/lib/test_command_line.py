"""Exit statuses and types of arguments."""

import argparse
import os
import signal

import pytest
from lib.command_line import UserError, argument_parser, count, positive, run_main, seeds, share


def test_statuses(capsys):
    def fail(error):
        raise error

    assert run_main(lambda: None) == 0 and run_main(lambda: 3) == 3
    assert run_main(lambda: fail(UserError("no a: give b"))) == 2
    assert run_main(lambda: fail(PermissionError(13, "Permission denied", "a.txt"))) == 2
    assert capsys.readouterr().err == "error: no a: give b\nerror: [Errno 13] Permission denied: 'a.txt'\n"
    assert run_main(lambda: os.kill(os.getpid(), signal.SIGTERM)) == 130
    assert run_main(lambda: fail(KeyboardInterrupt), "stopped") == 130
    assert capsys.readouterr().err == "\ninterrupted: rerun the same command to resume\nstopped\n"
    with pytest.raises(TypeError):
        run_main(lambda: fail(TypeError()))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (positive, {"1": 1, "20": 20}, ["0", "-1", "1.5", "", "x", "nan"]),
        (count, {"0": 0, "7": 7}, ["-1", "1.5", ""]),
        (share, {"0.5": 0.5, "1e-9": 1e-9}, ["0", "1", "1.5", "nan", "x"]),
        (seeds, {"1,2": (1, 2), "7": (7,)}, ["1,1", "-1", "1 2", "", "one"]),
    ],
)
def test_types(kind, good, bad):
    assert {text: kind(text) for text in good} == good
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}': give "):
            kind(text)


def test_no_abbreviations(capsys):
    parser = argument_parser("What it does.\n\n    an example")
    parser.add_argument("--workers")
    with pytest.raises(SystemExit):
        parser.parse_args(["--work", "3"])
    assert "    an example" in parser.format_help()
