"""A case study as one HTML page to explore in a browser; it needs no network and no other file."""

import base64
import json
from pathlib import Path

from rdkit.Chem.Draw import rdMolDraw2D

from fs_plugins.data.molecules import parse_molecule
from fs_plugins.data.smiles_tokens import is_atom, tokenize
from fs_plugins.inference.graph import Decoding, TextGraph
from fs_plugins.inference.plots import MASK_COLOURS, shown_states

KINDS = ("html", "css", "js")  # files that a page is made of
MIN_EDGE = 0.02
SIZE = (240, 170)  # pixels of a molecule
MOST_ATOMS = 300  # largest molecule drawn: RDKit takes minutes for thousands


def page(graph: TextGraph, min_edge: float = MIN_EDGE) -> str:
    """Returns the page: the text, its graph of states and its decodings; of molecules, these are drawn.

    Pointing at or tapping a state shows its tokens, its edges and the paths through it; a slider hides weak
    edges, at first those that less than ``min_edge`` of the paths take; selecting a decoding lights its path;
    the graph can be saved as SVG. The page shows the states of :func:`shown_states`; its figures cover all.
    """
    decodings = [graph.best, graph.best_free, *graph.samples, *graph.samples_free]
    texts = {decoding.text: decoding for decoding in decodings if decoding}
    data = {
        "graph": graph.to_dict(),
        "shown": [state.index for state in shown_states(graph)],
        "colours": MASK_COLOURS,
        "min_edge": min_edge,
        "pictures": {text: _picture(d) for text, d in texts.items()} if graph.of_molecule else {},
    }
    html, style, script = (Path(__file__).with_suffix(f".{kind}").read_text("utf-8") for kind in KINDS)
    # Nothing in it ends or opens an HTML element or comment.
    embedded = json.dumps(data, allow_nan=False).translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&"})
    html = html.replace("/*STYLE*/", style).replace("/*SCRIPT*/", script)
    return html.replace("/*DATA*/", embedded)  # comes last: a token may look like a mark


def _picture(decoding: Decoding) -> dict[str, str]:
    """Returns the address of the molecule's drawing, or the reason why there is none."""
    try:
        svg = _drawing(decoding.pieces)
    except ValueError as error:
        return {"fault": str(error)}
    return {"image": f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"}


def _drawing(pieces: list[tuple[str, int]]) -> str:
    """Returns an SVG picture of a SMILES in parts, each with the number of the mask that it fills or 0; atoms
    that fill masks are highlighted. Raises ValueError if RDKit cannot read it."""
    molecule = parse_molecule("".join(text for text, _ in pieces))
    if (size := molecule.GetNumAtoms()) > MOST_ATOMS:
        raise ValueError(f"{size:,} atoms, more than {MOST_ATOMS} are not drawn")
    atoms = [mask for text, mask in pieces for token in tokenize(text) if is_atom(token)]
    if len(atoms) != size:  # RDKit takes [H] away
        atoms = []
    drawing = rdMolDraw2D.MolDraw2DSVG(*SIZE)
    options = drawing.drawOptions()
    options.clearBackground = False
    options.setHighlightColour((0.62, 0.78, 1.0, 0.9))
    filled = [i for i, mask in enumerate(atoms) if mask]
    rdMolDraw2D.PrepareAndDrawMolecule(drawing, molecule, highlightAtoms=filled, highlightBonds=[])
    drawing.FinishDrawing()
    return drawing.GetDrawingText().split("?>", 1)[1].strip()
