"""Reading molecules: what RDKit takes, its reasons, canonical forms and scaffolds."""

import pytest
from rdkit import Chem

from fs_plugins.data.molecules import LONGEST, canonical_smiles, murcko_scaffold, parse_molecule

# of Tox21: six bonds on aluminium
ALUMINIUM = "CC(=O)O[AlH3](O)OC(C)=O"

# RDKit would misread the first two, and the last two would end the process
REFUSED = {"C C": "white space", "CC\0C": "printable ASCII", "c1cccc1": "kekulize", "[#119]": "RDKit"}
REFUSED |= {"C" * (LONGEST + 1): "too long", "C(" * 30_000 + "C" + ")" * 30_000: "too long"}


@pytest.mark.parametrize(("smiles", "reason"), REFUSED.items(), ids=REFUSED.values())
def test_what_is_no_molecule(smiles, reason):
    for allow_valence in (False, True):
        with pytest.raises(ValueError, match=reason):
            parse_molecule(smiles, allow_valence=allow_valence)


def test_the_longest_and_valences_that_are_allowed():
    assert parse_molecule("C" * LONGEST).GetNumAtoms() == LONGEST
    with pytest.raises(ValueError, match="valence .* Al"):
        parse_molecule(ALUMINIUM)
    molecule = parse_molecule(ALUMINIUM, allow_valence=True)
    assert molecule.GetNumAtoms() == 10
    assert canonical_smiles(molecule, ALUMINIUM) == ALUMINIUM  # RDKit could not read its own output
    assert murcko_scaffold(molecule) == ""


def test_atom_maps_are_no_part_of_a_molecule():
    """Those of all atoms, of some, and of a centre that is none without them; isotopes are a part of it."""
    texts = "CN(C)C/C=C(/c1ccc(Br)cc1)c1cccnc1 C[C@H](N)C(=O)O [13CH3]c1c[nH]cc1 [Cl-].[Na+]"
    for smiles in texts.split():
        plain, mapped = parse_molecule(smiles), Chem.MolFromSmiles(smiles)
        for atom in mapped.GetAtoms():
            atom.SetAtomMapNum(atom.GetIdx() + 1)
            copy = parse_molecule(Chem.MolToSmiles(mapped))
            assert canonical_smiles(copy, "") == canonical_smiles(plain, "")
            assert murcko_scaffold(copy) == murcko_scaffold(plain)
    assert canonical_smiles(parse_molecule("[CH3:0][CH2:0][OH:0]"), "") == "CCO"
    mapped = "[CH3:1][C@](F)(Cl)[CH3:2]"
    assert canonical_smiles(parse_molecule(mapped), mapped) == "CC(C)(F)Cl"
    for smiles in ("[H][H]", "[O][O]", "[C-]#[O+]", "[Na][Cl]"):
        assert parse_molecule(smiles)


LINKERS = ("Fc1ccccc1/C({})=C/c1ccncc1", "O=C(/C({})=N\\Nc1ccccc1)C1CC1", "C/C({})=C1/C[C@H]2CC[C@@H]1N2")


@pytest.mark.parametrize("smiles", LINKERS)
def test_a_scaffold_depends_neither_on_the_spelling_nor_on_what_is_no_part_of_it(smiles):
    """DeepChem's, ``as_spelled``, does."""
    analogues = [Chem.MolFromSmiles(smiles.format(one)) for one in ("C", "CC", "C#N", "CCCl", "[N+](=O)[O-]")]
    copies = [Chem.MolToSmiles(one, doRandom=True, canonical=False) for one in analogues for _ in range(20)]
    assert len({murcko_scaffold(parse_molecule(copy)) for copy in copies}) == 1
    assert smiles != LINKERS[0] or len({murcko_scaffold(parse_molecule(copy), True) for copy in copies}) > 1


def test_canonical_forms_and_scaffolds_which_keep_rings_linkers_and_chirality():
    kekulised = "[O-][N+](=O)C1=CC=C(Cl)C=C1"
    assert canonical_smiles(parse_molecule(kekulised), kekulised) == "O=[N+]([O-])c1ccc(Cl)cc1"
    assert murcko_scaffold(parse_molecule("CCc1ccc(CCC2CCNCC2)cc1")) == "c1ccc(CCC2CCNCC2)cc1"
    assert murcko_scaffold(parse_molecule("C" * 4_000)) == ""  # which would take RDKit minutes
    with pytest.raises(ValueError, match="scaffold: 1,003 atoms, more than 1,000"):
        murcko_scaffold(parse_molecule("C1CC1" + "C" * 1_000))
    azo = parse_molecule("c1ccccc1/N=N/c1ccncc1")
    assert "/" in murcko_scaffold(azo, as_spelled=True) and "/" not in murcko_scaffold(azo)
    left, right = (murcko_scaffold(parse_molecule(f"CN1CC[C{at}H]2CCCC[C@@H]21")) for at in ("@", "@@"))
    assert left != right and "@" in left
