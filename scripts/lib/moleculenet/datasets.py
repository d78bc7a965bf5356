"""The seven sets of table 9, as DeepChem distributes them: names and columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownSet:
    """A set of MoleculeNet.

    Attributes:
        title: the paper's name.
        smiles: the column of the SMILES.
        labels: the columns of the labels; () for all others, but the ``ignored``.
        allow_valence: Tox21 has 8 salts of aluminium that current releases of RDKit refuse and those of the
            paper's time read; without them its 7,831 molecules, and so the split, would be others.
    """

    title: str
    smiles: str
    labels: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    allow_valence: bool = False


# in the order of table 1
KNOWN = {
    "bace": KnownSet("BACE", "mol", ("Class",)),
    "bbbp": KnownSet("BBBP", "smiles", ("p_np",)),
    "tox21": KnownSet("Tox21", "smiles", (), ("mol_id",), allow_valence=True),
    "sider": KnownSet("SIDER", "smiles", ()),
    "muv": KnownSet("MUV", "smiles", (), ("mol_id",)),
    "clintox": KnownSet("ClinTox", "smiles", ("FDA_APPROVED", "CT_TOX")),
    "toxcast": KnownSet("ToxCast", "smiles", ()),
}
OTHER = KnownSet("", "smiles", ())  # the columns of a set of one's own, unless they are named
