"""Molecules as RDKit reads them: which SMILES are valid, their canonical form and their scaffold."""

from rdkit import Chem, rdBase
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

VALENCE = "AtomValenceException"
LONGEST = 5_000  # characters: RDKit takes a second for as many, minutes for 50,000, and its recursion crashes


def parse_molecule(smiles: str, allow_valence: bool = False) -> Chem.Mol:
    """The molecule of a SMILES string.

    Args:
        allow_valence: accept atoms with more bonds than RDKit permits. Its rules change between releases:
            Tox21 has 8 salts of aluminium, written with [AlH3], that older ones read and current ones refuse.

    Raises:
        ValueError: if RDKit cannot read it; the message is RDKit's reason.
    """
    if not smiles.strip():
        raise ValueError("empty SMILES")
    if smiles != smiles.strip() or len(smiles.split()) > 1:
        raise ValueError("white space in the SMILES")
    if "\0" in smiles:  # where RDKit would stop
        raise ValueError("a zero byte in the SMILES")
    if len(smiles) > LONGEST:
        raise ValueError(f"too long: {len(smiles):,} characters, more than {LONGEST:,}")
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
        if molecule is not None:
            return molecule
        unchecked = Chem.MolFromSmiles(smiles, sanitize=False)
        if unchecked is None:
            raise ValueError("not a SMILES string")
        problems = Chem.DetectChemistryProblems(unchecked)
        if allow_valence and problems and all(problem.GetType() == VALENCE for problem in problems):
            unchecked.UpdatePropertyCache(strict=False)
            steps = Chem.SanitizeFlags.SANITIZE_ALL ^ Chem.SanitizeFlags.SANITIZE_PROPERTIES
            if Chem.SanitizeMol(unchecked, steps, catchErrors=True) == Chem.SanitizeFlags.SANITIZE_NONE:
                Chem.AssignStereochemistry(unchecked, cleanIt=True)
                return unchecked
    raise ValueError(problems[0].Message() if problems else "RDKit cannot read it")


def canonical_smiles(molecule: Chem.Mol, smiles: str) -> str:
    """RDKit's canonical SMILES, with stereochemistry; ``smiles`` as it was where RDKit cannot read its own
    output again (molecules that were only accepted with ``allow_valence``)."""
    canonical = Chem.MolToSmiles(molecule)
    with rdBase.BlockLogs():
        return canonical if canonical and Chem.MolFromSmiles(canonical) is not None else smiles


def murcko_scaffold(molecule: Chem.Mol) -> str:
    """Bemis-Murcko scaffold (rings and what links them), with chirality, as canonical SMILES; "" for a
    molecule without rings."""
    return MurckoScaffoldSmiles(mol=molecule, includeChirality=True)
