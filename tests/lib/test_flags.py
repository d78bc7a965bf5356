"""Flags of files and command lines."""

import pytest
from lib.command_line import UserError
from lib.flags import Flags


def test_the_last_of_a_flag_counts():
    flags = Flags.of(["--lr", "1", "--x", "--lr=2", "--n", "-1", "b"])
    assert flags == {"--x": (), "--lr": ("2",), "--n": ("-1", "b")}
    assert flags.words() == ["--lr", "2", "--x", "--n", "-1", "b"]
    assert (flags.value("--lr"), flags.value("--x"), flags.value("--none")) == ("2", None, None)
    with pytest.raises(UserError, match="'b' belongs to no flag"):
        Flags.of(["b"])


def test_a_flag_file(tmp_path):
    path = tmp_path / "a.flags"
    path.write_text("# head\n--lr 1e-3  # why\n\n--a --b (0.9,0.98)\n")
    assert Flags.read(path) == {"--lr": ("1e-3",), "--a": (), "--b": ("(0.9,0.98)",)}


def test_numbers():
    flags = Flags.of(["--n", "3", "--r", "0.5", "--zero", "0", "--minus", "-1", "--word", "x"])
    assert flags.whole("--n") == 3 and flags.number("--r", below=1) == 0.5 and flags.number("--zero") == 0
    for name in ("--zero", "--r", "--word", "--none"):
        with pytest.raises(UserError, match=f"{name} '.*': give a whole number, 1 or more"):
            flags.whole(name)
    for name in ("--minus", "--word", "--none"):
        with pytest.raises(UserError, match=f"{name} '.*': give a number, 0 or more"):
            flags.number(name)
    with pytest.raises(UserError, match="--n '3': give a number, 0 or more and less than 1"):
        flags.number("--n", below=1)


def test_taking_and_setting():
    flags = Flags.of(["--a", "1", "--b"])
    assert flags.take("--a", "--none") == {"--a": ("1",)} and flags == {"--b": ()}
    flags.set("--c", 1, 2.5)
    assert str(flags) == "--b --c 1 2.5"
