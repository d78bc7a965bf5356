"""SMILES tokens: nothing is lost, and everything that RDKit accepts can be read."""

import itertools
import string

from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem, rdBase

from fs_plugins.data.smiles_tokens import tokenize


def scan(smiles: str) -> list[str]:
    """An independent tokenizer: by hand, a character at a time."""
    tokens, i = [], 0
    while i < len(smiles):
        if smiles[i] == "[":
            end = smiles.index("]", i) + 1
        elif smiles.startswith("%(", i):
            end = smiles.index(")", i) + 1
        elif smiles[i] == "%":
            end = i + 3
        else:
            end = i + (2 if smiles[i : i + 2] in ("Cl", "Br") else 1)
        tokens.append(smiles[i:end])
        i = end
    return tokens


@given(st.text(alphabet="CclBrNon[]()%0123=#/\\+-@<> .é١", max_size=30))
def test_lossless_or_an_error(text):
    try:
        tokens = tokenize(text)
    except ValueError:
        return
    assert "".join(tokens) == text and tokens == scan(text)


def test_every_short_string_that_rdkit_accepts():
    """All strings of one and two printable characters, alone and within a chain: but for blanks, after which
    RDKit reads a name, there is no syntax of RDKit's that the tokens don't know."""
    accepted, printable = 0, string.printable[:94]
    with rdBase.BlockLogs():
        for middle in (*printable, *map("".join, itertools.product(printable, repeat=2))):
            for smiles in (middle, f"C{middle}", f"C{middle}C", f"C{middle}CC1"):
                if Chem.MolFromSmiles(smiles) is not None:
                    assert "".join(tokenize(smiles)) == smiles
                    accepted += 1
    assert accepted > 500
