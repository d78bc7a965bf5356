"""Reading results. What cannot be read is noted, so that a report tells of it and still shows the rest."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lib.folders import MANIFEST
from lib.report.page import Section, code
from lib.tables import Table

T = TypeVar("T")


class Reader:
    """Reads the files of results and the records of what they are made of.

    Attributes:
        problems: what could not be read or used, a sentence each.
        damaged: the files that could not be read.
        commands: folder of a run -> its command, of the records that were read.
    """

    def __init__(self):
        self.problems: list[str] = []
        self.damaged: set[Path] = set()
        self.commands: dict[str, str] = {}
        self._origins: dict[str, set[str]] = defaultdict(set)

    def note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def read(self, path: Path, parse: Callable[[dict], T] = dict) -> T | None:
        """What ``parse`` makes of a JSON file; None if it does not exist, or is damaged, which is noted.

        A .jsonl file is the list of its lines.
        """
        if not path.exists():
            return None
        try:
            text = path.read_text(encoding="utf-8")
            lines = path.suffix == ".jsonl"
            return parse([json.loads(line) for line in text.splitlines()] if lines else json.loads(text))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            self.damaged.add(path)
            reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            self.note(f"{path} is damaged: {reason}")
            return None

    def record(self, folder: Path) -> None:
        """Makes the command, commit and versions in the manifest.json of a run part of the provenance."""
        if found := self.read(folder / MANIFEST, _origin):
            self.commands[str(folder)], versions = found
            for name, version in versions.items():
                self._origins[name].add(str(version))

    def provenance(self) -> Section | None:
        """What the runs were made with: commits and versions, more than one where they differ; commands."""
        if not self.commands:
            return None
        rows = [["runs", f"{len(self.commands):,}"]]
        rows += [[name, ", ".join(sorted(found))] for name, found in self._origins.items()]
        text = "\n\n".join(f"# {folder}\n{command}" for folder, command in self.commands.items())
        return Section("Where the numbers come from", [Table(["", ""], rows), code("Commands", text)])


def _origin(content: dict) -> tuple[str, dict]:
    """The command of a record, and what it was run with."""
    return shlex.join(content["command"]), {"commit": content["commit"], **content["versions"]}
