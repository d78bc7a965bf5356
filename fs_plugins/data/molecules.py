"""Molecules as RDKit reads them: which SMILES are valid, their canonical form and their scaffold."""

import re

from rdkit import Chem, rdBase
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

VALENCE = "AtomValenceException"
LARGEST = 1_000  # atoms with a scaffold: RDKit takes a second for as many, minutes for 4,000
LONGEST = 5_000  # characters: RDKit takes a second for as many, minutes for 50,000, and its recursion crashes
# input that RDKit would misread, or never return from
REFUSED = {
    "empty SMILES": re.compile("$"),
    # it takes what follows a blank for a name, trims the ends, and stops at \0
    "white space, or a character that is not printable ASCII": re.compile(".*[^!-~]"),
    f"too long: more than {LONGEST:,} characters": re.compile(rf".{{{LONGEST + 1}}}"),
}


def parse_molecule(smiles: str, allow_valence: bool = False) -> Chem.Mol:
    """Returns the molecule of a SMILES string, without its atom maps. Raises ValueError, with RDKit's reason,
    if RDKit cannot read it.

    Args:
        allow_valence: accept atoms with more bonds than RDKit permits. Its rules change between releases:
            Tox21 has 8 salts of aluminium, written with [AlH3], that older ones read and current ones refuse.
    """
    for reason, pattern in REFUSED.items():
        if pattern.match(smiles):
            raise ValueError(reason)
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
        if molecule is not None:
            return _without_maps(molecule)
        unchecked = Chem.MolFromSmiles(smiles, sanitize=False)
    if unchecked is None:
        raise ValueError("not a SMILES string")
    with rdBase.BlockLogs():
        try:
            problems = Chem.DetectChemistryProblems(unchecked)
        except RuntimeError as error:  # an invariant of RDKit's, as for [#119]
            raise ValueError("RDKit cannot read it") from error
        if allow_valence and problems and all(problem.GetType() == VALENCE for problem in problems):
            unchecked.UpdatePropertyCache(strict=False)
            steps = Chem.SanitizeFlags.SANITIZE_ALL ^ Chem.SanitizeFlags.SANITIZE_PROPERTIES
            if Chem.SanitizeMol(unchecked, steps, catchErrors=True) == Chem.SanitizeFlags.SANITIZE_NONE:
                Chem.AssignStereochemistry(unchecked, cleanIt=True)
                return _without_maps(unchecked)
    raise ValueError(problems[0].Message() if problems else "RDKit cannot read it")


def _without_maps(molecule: Chem.Mol) -> Chem.Mol:
    """Returns a molecule without atom maps ([CH3:1]), which number atoms of reactions and are no part of it:
    with them, two copies of a molecule would be two molecules, with two scaffolds."""
    mapped = [atom for atom in molecule.GetAtoms() if atom.HasProp("molAtomMapNumber")]
    for atom in mapped:
        atom.SetAtomMapNum(0)
    if mapped:  # read anew: maps count for stereocentres, and atoms in brackets have no implicit hydrogens
        with rdBase.BlockLogs():
            return Chem.MolFromSmiles(Chem.MolToSmiles(molecule)) or molecule
    return molecule


def canonical_smiles(molecule: Chem.Mol, smiles: str) -> str:
    """Returns RDKit's canonical SMILES, with stereochemistry; ``smiles`` as it was where RDKit cannot read
    its own output again (molecules that were only accepted with ``allow_valence``)."""
    canonical = Chem.MolToSmiles(molecule)
    with rdBase.BlockLogs():
        return canonical if canonical and Chem.MolFromSmiles(canonical) is not None else smiles


def murcko_scaffold(molecule: Chem.Mol, as_spelled: bool = False) -> str:
    """Returns the Bemis-Murcko scaffold (rings and what links them), with chirality, as canonical SMILES; ""
    for a molecule without rings. Raises ValueError for a molecule with rings and more than LARGEST atoms.

    Cis and trans are left out: RDKit keeps their marks only if they were on bonds that stay, which depends on
    how the molecule was spelled, so that two copies may differ. ``as_spelled``, they are not (DeepChem's).
    """
    if not molecule.GetRingInfo().NumRings():
        return ""
    if (atoms := molecule.GetNumAtoms()) > LARGEST:
        raise ValueError(f"too large for a scaffold: {atoms:,} atoms, more than {LARGEST:,}")
    if not as_spelled:
        with rdBase.BlockLogs():
            plain = re.sub(r"[/\\]", "", Chem.MolToSmiles(molecule))
            molecule = Chem.MolFromSmiles(plain) or molecule  # see canonical_smiles
    return MurckoScaffoldSmiles(mol=molecule, includeChirality=True)
