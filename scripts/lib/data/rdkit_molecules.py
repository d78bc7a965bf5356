"""The molecules that RDKit ships, some 15,000: the first 5,000 of the NCI's open database, and 10,000 of
WEHI's screening library.

    python -m lib.data.rdkit_molecules pretrain.smi
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from lib.command_line import script
from lib.data.text_files import lines_of
from lib.files import write_lines
from rdkit import Chem, RDConfig, rdBase

DATA = Path(RDConfig.RDDataDir)
NCI, WEHI = DATA / "NCI" / "first_5K.smi", DATA / "Pains" / "test_data" / "wehi_mols.csv"
MOST_HEAVY_ATOMS = 50


def read_molecules(path: Path) -> Iterator[str]:
    """Yields the canonical SMILES of a file of RDKit's with the SMILES first in a line: of molecules that
    RDKit can read and that are not large."""
    with rdBase.BlockLogs():
        for _, line in lines_of(path):
            molecule = Chem.MolFromSmiles(line.replace('"', " ").split()[0]) if line.strip() else None
            if molecule is not None and 0 < molecule.GetNumHeavyAtoms() <= MOST_HEAVY_ATOMS:
                yield Chem.MolToSmiles(molecule)


@script
def main() -> None:
    output = Path(sys.argv[1])
    molecules = dict.fromkeys([*read_molecules(NCI), *read_molecules(WEHI)])
    write_lines(output, molecules)
    print(f"{output}: {len(molecules):,} molecules")
