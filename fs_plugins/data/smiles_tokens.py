r"""SMILES as tokens (section 5.1), by the regular expression of Schwaller et al. (2018).

Each alternative has its own line, and what no alternative takes is an error: copied from its publication into
a raw string, it would lose each ``\``, half of the cis/trans bonds, in silence.

Two alternatives are ours, for what RDKit reads and the published expression cannot take at all (nothing that
it does tokenise comes out differently): ring bonds from 100 on, ``%(123)``, as one token, and the ``<`` of a
dative bond ``<-`` (its mirror image ``->`` gives ``-`` and ``>``, as published).
"""

import re
from collections.abc import Iterable

PATTERN = "|".join(
    (
        r"\[[^\]]+\]",  # an atom in brackets, whole: [C@@H], [Na+], [13CH3:1]
        r"Br?|Cl?|[NOSPFI]",  # atoms without brackets
        r"[bcnosp]",  # aromatic ones
        r"[*]",  # any atom
        r"[()]",  # branches
        r"[.]",  # parts that are not bonded
        r"[-=#$:~/\\]",  # bonds; / and \ are cis and trans
        r"[+@?>]",  # symbols of reactions and old dialects outside of brackets
        r"%[0-9]{2}|[0-9]",  # ring bonds
        r"%\([0-9]+\)|<",  # not in the published expression, see above
    )
)
_TOKEN = re.compile(PATTERN)


def tokenize(smiles: str) -> list[str]:
    """Returns the tokens of a SMILES string; joined, they are the string again. Whether they make a molecule
    is RDKit's to say. Raises ValueError for the first character that begins no token."""
    tokens = _TOKEN.findall(smiles)
    # tokens don't overlap, so equal lengths mean that nothing was skipped
    if sum(map(len, tokens)) == len(smiles):
        return tokens
    position = 0
    while found := _TOKEN.match(smiles, position):
        position = found.end()
    where = f"{smiles[position]!r} at position {position} of {smiles!r}"
    raise ValueError(f"no SMILES token begins with {where}")


def is_smiles(symbols: Iterable[str]) -> bool:
    """Returns whether a dictionary is one of SMILES: nine in ten of its symbols are single tokens, other than
    special and made-up ones."""
    symbols = [s for s in symbols if not re.fullmatch(r"</?s>|<pad>|<unk>|<mask>|madeupword\d+", s)]
    return sum(_TOKEN.fullmatch(symbol) is not None for symbol in symbols) > 0.9 * len(symbols)
