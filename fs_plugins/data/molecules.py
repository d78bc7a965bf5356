"""Molecules as RDKit reads them: which SMILES are valid, their canonical form and their scaffold."""

import io
import re
from contextlib import redirect_stderr

from rdkit import Chem, rdBase
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

VALENCE = "AtomValenceException"
LARGEST = 1_000  # atoms with a scaffold: RDKit takes a second for as many, minutes for 4,000
LONGEST = 5_000  # characters: RDKit takes a second for as many, minutes for 50,000, and its recursion crashes
WRAPPED = re.compile(r"\[[^][]*[-+H]\d{3}[^]]*\]?")  # RDKit takes [C-200] for [C+56], [CH260] for CH4


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
    if wrapped := WRAPPED.search(smiles):
        raise ValueError(f"a charge or hydrogens above 99: {wrapped[0][:30]}")
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
        if molecule is not None:
            return molecule
        unchecked = Chem.MolFromSmiles(smiles, sanitize=False)
    if unchecked is None:
        raise ValueError(f"not a SMILES string{_parse_error(smiles)}")
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
                return unchecked
    raise ValueError(problems[0].Message() if problems else "RDKit cannot read it")


def _parse_error(smiles: str) -> str:
    """What RDKit, which logs it, finds wrong with a string that it does not parse, as ": REASON", or ""."""
    rdBase.LogToPythonStderr()
    with redirect_stderr(io.StringIO()) as heard:
        Chem.MolFromSmiles(smiles, sanitize=False)
    rdBase.LogToCppStreams()
    reason = re.search(r"Parse Error: (.+?)( for input| while parsing|$)", heard.getvalue(), re.MULTILINE)
    place = re.search(r"around (position \d+)", heard.getvalue())
    return (f": {reason[1][:80]}" if reason else "") + (f" at {place[1]}" if place else "")


def canonical_smiles(molecule: Chem.Mol, smiles: str) -> str:
    """RDKit's canonical SMILES, with stereochemistry; ``smiles`` as it was where RDKit cannot read its own
    output again (molecules that were only accepted with ``allow_valence``)."""
    canonical = Chem.MolToSmiles(molecule)
    with rdBase.BlockLogs():
        return canonical if canonical and Chem.MolFromSmiles(canonical) is not None else smiles


def murcko_scaffold(molecule: Chem.Mol) -> str:
    """Bemis-Murcko scaffold (rings and what links them), with chirality, as canonical SMILES; "" for a
    molecule without rings. Raises ValueError for a molecule with rings and more than LARGEST atoms."""
    if not molecule.GetRingInfo().NumRings():
        return ""
    if (atoms := molecule.GetNumAtoms()) > LARGEST:
        raise ValueError(f"too large for a scaffold: {atoms:,} atoms, more than {LARGEST:,}")
    return MurckoScaffoldSmiles(mol=molecule, includeChirality=True)
