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
    "bace": KnownSet("BACE", "mol", ("Class",), (1210, 151, 151)),
    "bbbp": KnownSet("BBBP", "smiles", ("p_np",), (1631, 204, 204)),
    "tox21": KnownSet("Tox21", "smiles", (), (6264, 783, 783), ("mol_id",), allow_valence=True),
    "sider": KnownSet("SIDER", "smiles", (), (1141, 143, 143)),
    "muv": KnownSet("MUV", "smiles", (), (74469, 9309, 9309), ("mol_id",)),
    "clintox": KnownSet("ClinTox", "smiles", ("FDA_APPROVED", "CT_TOX"), (1182, 148, 148)),
    "toxcast": KnownSet("ToxCast", "smiles", (), (6860, 858, 858)),
}
OTHER = KnownSet("", "smiles", (), (0, 0, 0))  # the columns of a set of one's own, unless they are named
