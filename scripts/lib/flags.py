"""Flags of fairseq-train: from flag files and command lines; of a flag given twice, the last counts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from lib.command_line import UserError


class Flags(dict[str, tuple[str, ...]]):
    """``{"--lr": ("2e-3",), "--cpu": (), ...}``: each flag with its values, in order; of a flag in both a and
    b, ``a | b`` has the values of b."""

    @classmethod
    def of(cls, words: Iterable[str]) -> Flags:
        """Of a command line; a value starts with no ``--``.

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
        """Of a flag file: words, with comments from ``#`` to the end of the line."""
        lines = path.read_text(encoding="utf-8").splitlines()
        return cls.of(word for line in lines for word in line.split("#")[0].split())

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

    def whole(self, name: str) -> int:
        """Its value as a whole number, 1 or more; raises UserError if it is none."""
        value = self.value(name) or ""
        if not value.isdigit() or int(value) < 1:
            raise UserError(f"{name} '{value}': give a whole number, 1 or more")
        return int(value)

    def number(self, name: str, below: float = float("inf")) -> float:
        """Its value as a number of 0 or more, and less than ``below``; raises UserError if it is none."""
        value = self.value(name) or ""
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0.0 <= number < below:
            limit = "0 or more" if below == float("inf") else f"0 or more and less than {below:g}"
            raise UserError(f"{name} '{value}': give a number, {limit}")
        return number

    def take(self, *names: str) -> Flags:
        """Removes flags and returns them."""
        return Flags({name: self.pop(name) for name in names if name in self})

    def words(self) -> list[str]:
        return [word for name, values in self.items() for word in (name, *values)]

    def __str__(self) -> str:
        return shlex.join(self.words())


def check_recipe(recipe: Flags) -> None:
    """Raises UserError for hyper-parameters of a fine-tuning with which nothing can be learned."""
    for name in ("--batch-size", "--max-epoch"):
        recipe.whole(name)
    recipe.number("--warmup-ratio", below=1)
    if recipe.number("--lr") == 0:
        raise UserError(f"--lr {recipe.value('--lr')}: give a number above 0, such as 3e-5")
