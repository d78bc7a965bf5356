"""What the scripts' command lines share: the error for a user, exit statuses, types of arguments, and
fairseq-train's flags."""

from __future__ import annotations

import argparse
import logging
import shlex
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

INTERRUPTED = "\ninterrupted: rerun the same command to resume"


class UserError(ValueError):
    """Something that the user has to mend; the message names the value and the way out."""


def run_main(run: Callable[[], int | None], interrupted: str = INTERRUPTED) -> int:
    """The exit status of a script: ``run``'s own, 2 after an error that is the user's, 130 if interrupted.

    SIGTERM counts as an interruption. What libraries log is shown from warnings on.
    """
    logging.basicConfig(level=logging.WARNING, force=True)  # fairseq lets every level through
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run() or 0
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return 130


def argument_parser(doc: str, **more) -> argparse.ArgumentParser:
    """A parser whose help is a module's docstring, and which takes no abbreviated options."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=doc, formatter_class=form, allow_abbrev=False, **more)


def positive(text: str) -> int:
    """Type of an argument: a whole number, 1 or more."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': give a whole number, 1 or more")
    return int(text)


def count(text: str) -> int:
    """Type of an argument: a whole number, 0 or more."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}': give a whole number, 0 or more")
    return int(text)


def share(text: str) -> float:
    """Type of an argument: a number above 0 and below 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"'{text}': give a share between 0 and 1, such as 0.15")
    return value


def seeds(text: str) -> tuple[int, ...]:
    """Type of an argument: different whole numbers, such as 1,2,3."""
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(f"'{text}': give different whole numbers, such as 1,2,3")
    return numbers


class Flags(dict[str, tuple[str, ...]]):
    """Flags of fairseq-train: ``{"--lr": ("2e-3",), "--cpu": (), ...}``, each with its values, in order; of a
    flag in both a and b, ``a | b`` has the values of b."""

    @classmethod
    def of(cls, words: Iterable[str]) -> Flags:
        """Of a command line, in which the last of a flag counts; a value starts with no ``--``.

        Raises:
            UserError: for a value without a flag.
        """
        flags, name = cls(), None
        for word in words:
            if word.startswith("--"):
                name, equals, value = word.partition("=")
                flags[name] = (value,) if equals else ()
            elif name is None:
                raise UserError(f"'{word}' belongs to no flag; see --help")
            else:
                flags[name] += (word,)
        return flags

    @classmethod
    def read(cls, path: Path) -> Flags:
        """Of a flag file: words, with comments from ``#`` to the end of the line. ``@FILE``, as the first
        word, stands for the flags of a file beside it."""
        lines = [line.split("#")[0].split() for line in path.read_text(encoding="utf-8").splitlines()]
        words = [word for line in lines for word in line]
        if words and words[0].startswith("@"):
            return cls.read(path.with_name(words[0][1:])) | cls.of(words[1:])
        return cls.of(words)

    @classmethod
    def named(cls, what: str, name: str, folder: Path) -> Flags:
        """Of FOLDER/NAME.flags.

        Raises:
            UserError: if there is none; names those that there are.
        """
        known = sorted(path.stem for path in folder.glob("*.flags"))
        if name not in known:
            raise UserError(f"unknown {what} '{name}': choose one of {', '.join(known)}")
        return cls.read(folder / f"{name}.flags")

    def __or__(self, other: dict) -> Flags:
        return Flags({**self, **other})

    def set(self, name: str, *values) -> None:
        self[name] = tuple(map(str, values))

    def value(self, name: str) -> str | None:
        """Its (last) value; None if the flag is not given or has none."""
        return self[name][-1] if self.get(name) else None

    def whole(self, name: str, default: int | None = None) -> int:
        """Its value as a whole number, 1 or more; raises UserError if it is none."""
        value = self.value(name) or "" if default is None or name in self else str(default)
        if not value.isdigit() or int(value) < 1:
            raise UserError(f"{name} '{value}': give a whole number, 1 or more")
        return int(value)

    def proportion(self, name: str) -> float:
        """Its value as a number of 0 or more, and less than 1; raises UserError if it is none."""
        value = self.value(name) or ""
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0.0 <= number < 1.0:
            raise UserError(f"{name} '{value}': give a number, 0 or more and less than 1")
        return number

    def take(self, *names: str) -> Flags:
        """Removes flags and returns them."""
        return Flags({name: self.pop(name) for name in names if name in self})

    def words(self) -> list[str]:
        return [word for name, values in self.items() for word in (name, *values)]

    def __str__(self) -> str:
        return shlex.join(self.words())
