"""Drawings of molecules, with the atoms that fill masks highlighted."""

from rdkit.Chem.Draw import rdMolDraw2D

from fs_plugins.data.molecules import parse_molecule
from fs_plugins.data.smiles_tokens import is_atom, tokenize

SIZE = (240, 170)  # pixels


def draw_molecule(pieces: list[tuple[str, int]], *, dark: bool = False) -> str:
    """An SVG picture, on no background.

    Args:
        pieces: a SMILES in parts, each with the number of the mask that it fills, or 0.
        dark: whether it is for a dark page.

    Raises:
        ValueError: if RDKit cannot read it; the message says why.
    """
    molecule = parse_molecule("".join(text for text, _ in pieces))
    atoms = [mask for text, mask in pieces for token in _tokens(text) if is_atom(token)]
    if len(atoms) != molecule.GetNumAtoms():  # RDKit takes [H] away
        atoms = []
    drawing = rdMolDraw2D.MolDraw2DSVG(*SIZE)
    options = drawing.drawOptions()
    if dark:
        rdMolDraw2D.SetDarkMode(options)
    options.clearBackground = False
    options.setHighlightColour((0.25, 0.45, 0.7, 0.8) if dark else (0.62, 0.78, 1.0, 0.9))
    filled = [i for i, mask in enumerate(atoms) if mask]
    rdMolDraw2D.PrepareAndDrawMolecule(drawing, molecule, highlightAtoms=filled, highlightBonds=[])
    drawing.FinishDrawing()
    return drawing.GetDrawingText().split("?>", 1)[1].strip()


def _tokens(text: str) -> list[str]:
    """The tokens of a part of a SMILES, which may be none of SMILES."""
    try:
        return tokenize(text)
    except ValueError:
        return []
