"""Molecules to tokens and scaffolds, with a reason for each that cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from fs_plugins.data.molecules import canonical_smiles, murcko_scaffold, parse_molecule
from fs_plugins.data.smiles_tokens import tokenize
from lib.command_line import UserError
from lib.moleculenet.reading import Row, Table


@dataclass
class Encoded:
    """A molecule: its row, SMILES and tokens as the model gets them, its scaffold, and RDKit's canonical
    SMILES by which repeated molecules are found."""

    row: Row
    smiles: str
    tokens: list[str]
    scaffold: str
    canonical: str


@dataclass
class Report:
    """What happened to individual molecules.

    Attributes:
        entries: (line, split, "skipped" or "kept", reason, SMILES).
        unknown: unknown tokens and how often they occur in the molecules kept.
    """

    entries: list[tuple[int, str, str, str, str]] = field(default_factory=list)
    unknown: Counter = field(default_factory=Counter)

    @property
    def skipped(self) -> int:
        return sum(entry[2] == "skipped" for entry in self.entries)


def encode(
    table: Table,
    symbols: Sequence[str],
    *,
    canonical: bool = True,
    allow_valence: bool = False,
    skip_unknown: bool = False,
    max_unknown: float = 0.05,
    scaffolds: bool = True,
) -> tuple[list[Encoded], Report]:
    """Reads every molecule of a table.

    Args:
        symbols: the dictionary's.
        canonical, allow_valence: see PropertyInfo.
        skip_unknown: skip molecules with tokens missing from the dictionary; otherwise they are kept, with
            ``<unk>``, and reported.
        max_unknown: the largest share of molecules with such tokens.
        scaffolds: whether they are needed.

    Raises:
        UserError: if no molecule is left, or too many have unknown tokens.
    """
    known, report, molecules = set(symbols), Report(), []
    report.entries += [(line, split, "skipped", reason, s) for line, s, reason, split in table.skipped]
    unknown_tokens, affected = Counter(), 0
    for row in table.rows:
        try:
            molecule = parse_molecule(row.smiles, allow_valence)
            standard = canonical_smiles(molecule, row.smiles)
            smiles = standard if canonical else row.smiles
            tokens = tokenize(smiles)
        except ValueError as error:
            report.entries.append((row.line, row.split, "skipped", str(error), row.smiles))
            continue
        if allow_valence:
            _note_valence(row, report)
        unknown = Counter(token for token in tokens if token not in known)
        if unknown:
            affected += 1
            unknown_tokens += unknown
            reason = f"unknown tokens {' '.join(sorted(unknown))}"
            status = "skipped" if skip_unknown else "kept"
            report.entries.append((row.line, row.split, status, reason, row.smiles))
            if skip_unknown:
                continue
            report.unknown += unknown
        scaffold = murcko_scaffold(molecule) if scaffolds else ""
        molecules.append(Encoded(row, smiles, tokens, scaffold, standard))
    if affected > max_unknown * max(1, len(table.rows)):
        named = ", ".join(f"{token} ({count})" for token, count in unknown_tokens.most_common(15))
        raise UserError(
            f"{affected} of {len(table.rows)} molecules have tokens missing from the dictionary: {named}. "
            "Is it the one of the pre-training? If so, and you accept this, raise --max-unknown"
        )
    if not molecules:
        first = report.entries[0] if report.entries else None
        raise UserError(
            "no molecule could be read"
            + (f"; the first, line {first[0]}: {first[3]} ({first[4]!r})" if first else "")
        )
    return molecules, report


def _note_valence(row: Row, report: Report) -> None:
    try:
        parse_molecule(row.smiles)
    except ValueError as error:
        report.entries.append((row.line, row.split, "kept", str(error), row.smiles))
