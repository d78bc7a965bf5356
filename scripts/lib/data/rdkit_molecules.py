"""The molecules that RDKit ships, and a property of some of them.

    python -m lib.data.rdkit_molecules pretrain.smi logP.csv

RDKit ships some 15,000: the first 5,000 of the NCI's open database, and 10,000 of WEHI's screening library.
Every third of the NCI's is kept for fine-tuning on Crippen's logP, which RDKit computes (logP.csv, for
prepare_moleculenet.py); the others are for pre-training (pretrain.smi, for prepare_smiles.py).
"""

import sys
from pathlib import Path

from lib.command_line import script
from lib.data.text_files import lines_of
from lib.files import write_lines
from rdkit import Chem, RDConfig, rdBase
from rdkit.Chem import Crippen

DATA = Path(RDConfig.RDDataDir)
NCI, WEHI = DATA / "NCI" / "first_5K.smi", DATA / "Pains" / "test_data" / "wehi_mols.csv"
MOST_HEAVY_ATOMS = 50


def read_molecules(path: Path) -> dict[str, Chem.Mol]:
    """Returns {canonical SMILES: molecule} of a file of RDKit's with the SMILES first in a line: those that
    RDKit can read and that are not large, each once."""
    molecules = {}
    with rdBase.BlockLogs():
        for _, line in lines_of(path):
            molecule = Chem.MolFromSmiles(line.replace('"', " ").split()[0]) if line.strip() else None
            if molecule is not None and 0 < molecule.GetNumHeavyAtoms() <= MOST_HEAVY_ATOMS:
                molecules.setdefault(Chem.MolToSmiles(molecule), molecule)
    return molecules


@script
def main() -> None:
    pretraining, labelled = map(Path, sys.argv[1:])
    nci, wehi = read_molecules(NCI), read_molecules(WEHI)
    chosen = dict.fromkeys(list(nci)[::3])
    others = [smiles for smiles in nci | wehi if smiles not in chosen]
    rows = (f"{smiles},{Crippen.MolLogP(nci[smiles]):.4f}" for smiles in chosen)
    write_lines(labelled, ["smiles,logP", *rows])
    write_lines(pretraining, others)
    print(f"{pretraining}: {len(others):,} molecules; {labelled}: {len(chosen):,} others with their logP")
