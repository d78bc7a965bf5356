"""What the scripts' command lines share: the error for a user, exit statuses, types of arguments, and
fairseq-train's flags."""

import argparse
import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, Self


class UserError(ValueError):
    """Something that the user has to mend; the message names the value and the way out."""


def script(run: Callable[..., int | None]) -> Callable[..., int]:
    """Makes a function, the last of its file, the main one of a script, and runs it if the file is what was
    called. It returns its exit status: the function's own, 2 after an error that is the user's, 130 if
    interrupted. With EXLM_TRACEBACK in the environment, an error comes with its traceback.

    SIGTERM counts as an interruption. What libraries log is shown from warnings on.
    """

    @wraps(run)
    def main(*arguments) -> int:
        logging.basicConfig(level=logging.WARNING, force=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            return run(*arguments) or 0
        except (ValueError, OSError, ModuleNotFoundError) as error:  # the last of an optional dependency
            if "EXLM_TRACEBACK" in os.environ:
                raise
            if isinstance(error, OSError) and error.filename and error.strerror:  # Python's own
                error = f"{error.filename}: {error.strerror}: give another file or folder"
            if isinstance(error, ModuleNotFoundError):
                error = f"{error}: pip install {error.name}"
            print(f"error: {visible(error)}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("\ninterrupted: rerun the same command", file=sys.stderr)
            return 130

    if run.__module__ == "__main__":
        sys.exit(main())
    return main


def visible(text) -> str:
    """Returns a text in which what would control a terminal, line ends and tabs aside, is escaped."""
    controls = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
    return re.sub(controls, lambda match: repr(match[0])[1:-1], str(text))


def counted(n: int, one: str, many: str = "") -> str:
    """Returns so many of a thing, "1 row" or "2,000 rows", for messages."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


SEVERAL = {"nargs": "+", "action": "extend"}  # of an option with values, which may be given again


class _Parser(argparse.ArgumentParser):
    def parse_known_args(self, args=None, namespace=None):
        if "" in (sys.argv[1:] if args is None else args):  # Path("") is the current folder
            self.error("an argument is empty: is a variable of the shell not set?")
        return super().parse_known_args(args, namespace)


def argument_parser(doc: str, **more) -> argparse.ArgumentParser:
    """Returns a parser whose help is a module's docstring, and which takes no abbreviated option, nothing
    empty."""
    form = argparse.RawDescriptionHelpFormatter
    return _Parser(description=doc, formatter_class=form, allow_abbrev=False, **more)


def _checked(convert: Callable, fits: Callable[..., bool], what: str) -> Callable[[str], Any]:
    """Returns a type of arguments: what ``convert`` makes of a text, if that ``fits``; else it asks for
    ``what``."""

    def checked(text: str):
        with suppress(ValueError):
            if "_" not in text and fits(value := convert(text)):  # Python takes 1_0 for 10
                return value
        raise argparse.ArgumentTypeError(f"'{text}': give {what}")

    return checked


def whole(low: int, high: int = (1 << 31) - 1) -> Callable[[str], Any]:
    """Returns the type of arguments that are whole numbers from ``low`` to ``high``."""
    return _checked(int, lambda n: low <= n <= high, f"a whole number from {low:,} to {high:,}")


positive, count = whole(1), whole(0)
proportion = _checked(float, lambda p: 0 <= p <= 1, "a share from 0 to 1")
share = _checked(float, lambda p: 0 < p < 1, "a share between 0 and 1, such as 0.15")
below_one = _checked(float, lambda p: 0 <= p < 1, "a number, 0 or more and less than 1")


def named_path(text: str) -> tuple[str, str]:
    """Type of arguments: NAME=PATH."""
    name, equals, path = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}': give NAME={text}, with a name of your choice")
    return name, path


class Flags(dict[str, tuple[str, ...]]):
    """Flags of fairseq-train: ``{"--lr": ("2e-3",), "--cpu": (), ...}``, each with its values, in order; of a
    flag in both a and b, ``a | b`` has the values of b."""

    @classmethod
    def of(cls, words: str | Iterable[str]) -> Self:
        """Returns the flags of a command line, or its text, in which the last of a flag counts; a value
        starts with no ``--``. Raises UserError for a value without a flag."""
        flags, name = cls(), None
        for word in words.split() if isinstance(words, str) else words:
            if word.startswith("--"):
                name, equals, value = word.partition("=")
                flags[name] = (value,) if equals else ()
            elif name is None:
                raise UserError(f"'{word}' belongs to no flag; see --help")
            else:
                flags[name] += (word,)
        return flags

    @classmethod
    def read(cls, path: Path) -> Self:
        """Returns the flags of a file: words, with comments from ``#`` to the end of the line. ``@FILE``, as
        the first word, stands for the flags of another file, named from there."""
        words = re.sub("#.*", "", path.read_text(encoding="utf-8")).split()
        if words and words[0].startswith("@"):
            return cls.read(path.parent / words[0][1:]) | cls.of(words[1:])
        return cls.of(words)

    def __or__(self, other: dict) -> Self:
        return Flags({**self, **other})

    def set(self, name: str, *values) -> None:
        self[name] = tuple(map(str, values))

    def value(self, name: str) -> str | None:
        """Returns its (last) value; None if the flag is not given or has none."""
        return self[name][-1] if self.get(name) else None

    def whole(self, name: str, default: int | None = None) -> int:
        """Returns its value as a whole number, 1 or more; raises UserError if it is none."""
        return default if default and name not in self else self._number(name, positive)

    def proportion(self, name: str) -> float:
        """Returns its value as a number of 0 or more, and less than 1; raises UserError if it is none."""
        return self._number(name, below_one)

    def _number(self, name: str, convert: Callable[[str], Any]):
        try:
            return convert(self.value(name) or "")
        except argparse.ArgumentTypeError as error:
            raise UserError(f"{name} {error}") from None

    def pop_all(self, *names: str) -> Self:
        """Removes flags and returns them."""
        return Flags({name: self.pop(name) for name in names if name in self})

    def only(self, *names: str) -> Self:
        """Returns the flags of these names."""
        return Flags({name: values for name, values in self.items() if name in names})

    def words(self) -> list[str]:
        return [word for name, values in self.items() for word in (name, *values)]

    def __str__(self) -> str:
        return shlex.join(self.words())
