"""Exit statuses, types of arguments, flags of files and command lines."""

import argparse
import os
import signal

import pytest
from lib.command_line import Flags, UserError, argument_parser, count, positive, script, share


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
    with pytest.raises(SystemExit):
        argument_parser("").parse_args([""])
    assert "an argument is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (positive, {"1": 1, "20": 20}, ["0", "-1", "1.5", "", "x", "nan", "1e30", "2147483648"]),
        (count, {"0": 0, "7": 7}, ["-1", "1.5", ""]),
        (share, {"0.5": 0.5, "1e-9": 1e-9}, ["0", "1", "1.5", "nan", "x"]),
    ],
)
def test_types(kind, good, bad):
    assert {text: kind(text) for text in good} == good
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}': give "):
            kind(text)


def test_no_abbreviations(refused):
    parser = argument_parser("What it does.\n\n    an example")
    parser.add_argument("--workers")
    assert "--work" in refused(parser.parse_args, "--work", "3") and "    an example" in parser.format_help()


def test_the_last_of_a_flag_counts_and_files_of_flags(tmp_path):
    flags = Flags.of(["--lr", "1", "--x", "--lr=2", "--n", "-1", "b"])
    assert flags == {"--x": (), "--lr": ("2",), "--n": ("-1", "b")}
    assert flags.words() == ["--lr", "2", "--x", "--n", "-1", "b"]
    assert (flags.value("--lr"), flags.value("--x"), flags.value("--none")) == ("2", None, None)
    with pytest.raises(UserError, match="'b' belongs to no flag"):
        Flags.of(["b"])
    (tmp_path / "a.flags").write_text("# head\n--lr 1e-3  # why\n\n--a --b (0.9,0.98)\n")
    (tmp_path / "b.flags").write_text("# head\n@a.flags\n--lr 2\n")
    for name, lr in (("a", "1e-3"), ("b", "2")):
        found = Flags.read(tmp_path / f"{name}.flags")
        assert found == {"--lr": (lr,), "--a": (), "--b": ("(0.9,0.98)",)}


def test_numbers_taking_and_setting():
    flags = Flags.of(["--n", "3", "--r", "0.5", "--zero", "0", "--minus", "-1", "--word", "x"])
    assert flags.whole("--n", 7) == 3 and flags.whole("--none", 7) == 7
    assert flags.proportion("--r") == 0.5 and flags.proportion("--zero") == 0
    bad = {flags.whole: ("--zero", "--r", "--word", "--none")}
    bad[flags.proportion] = ("--n", "--minus", "--word", "--none")
    for read, names in bad.items():
        for name in names:
            with pytest.raises(UserError, match=f"{name} '{flags.value(name) or '.*'}'"):
                read(name)
    flags = Flags.of(["--a", "1", "--b"])
    assert flags.take("--a", "--none") == {"--a": ("1",)} and flags == {"--b": ()}
    flags.set("--c", 1, 2.5)
    assert str(flags) == "--b --c 1 2.5"
