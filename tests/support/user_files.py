"""Tiny versions of the files that a user brings, under the names of the pages.

python -m tests.support.user_files    # into the current folder
"""

import json
import pickle
import random
from itertools import product
from pathlib import Path

from lib.data.glue_tasks import TASKS

from tests.support.builders import write_file, write_gpt2, write_lmdb
from tests.support.glue import write_task
from tests.support.squad import question, squad_json

WORDS = "the a this good bad new old model sentence word mask reads writes learns sees news is was of in"
MOLECULES = [
    head + ring + tail
    for head, ring, tail in product(
        ("", "C", "CC", "N", "O", "Cl", "FC", "CCC"),
        ("c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCNC1", "c1ccoc1", "c1ccsc1", "C1CCOC1", "C=C"),
        ("C", "CO", "C(=O)O", "C#N", "CN"),
    )
]


def documents(number: int, seed: int) -> list[list[str]]:
    """Documents of three paragraphs each."""
    chance = random.Random(seed)
    return [[" ".join(chance.choices(WORDS.split(), k=30)) + "." for _ in range(3)] for _ in range(number)]


def text() -> None:
    articles = (
        f'<doc id="{i}">\nT\n\n' + "\n".join(a) + "\n</doc>\n" for i, a in enumerate(documents(600, 1))
    )
    write_file(Path("wiki/AA/wiki_00"), "".join(articles))
    for i, book in enumerate(documents(20, 2)):
        write_file(Path(f"books/{i}.txt"), "\n\n".join(book))
    write_gpt2(Path("gpt2"), [("Ġ", "t"), ("h", "e"), ("Ġt", "he")])
    size = len(json.loads(Path("gpt2/encoder.json").read_text()))
    write_file(Path("gpt2/dict.txt"), "".join(f"{i} 1\n" for i in range(size)))
    chance = random.Random(3)
    ids = (" ".join(map(str, chance.choices(range(size), k=60))) + "\n" for _ in range(200))
    write_file(Path("wiki.ids"), "".join(ids))  # for fairseq-preprocess


def molecules() -> None:
    random.Random(1).shuffle(MOLECULES)
    lines = "".join(f"{smiles}\n" for smiles in MOLECULES)
    for name in ("zinc.txt.gz", "druglike_mix.txt.gz"):
        write_file(Path(name), lines)
    for name in ("test.smi", "molecules.smi"):
        write_file(Path(name), "".join(f"{smiles}\n" for smiles in MOLECULES[:20]))
    for name in ("train", "valid"):
        write_lmdb(Path(f"{name}.lmdb"), [pickle.dumps({"smi": smiles}) for smiles in MOLECULES[:100]])
    tables = {
        "chembl.csv": ("chembl_id,canonical_smiles", "CHEMBL{i},{smiles}"),
        "molecules.csv": ("name,smiles", "m{i},{smiles}"),
        "my.csv": ("SMILES,logS,logP", "{smiles},-{i}.5,0.{i}"),
        "BBBP.csv": ("num,name,p_np,smiles", "{i},m{i},{label},{smiles}"),
        "BACE.csv": ("mol,CID,Class", "{smiles},m{i},{label}"),
    }
    for name, (header, row) in tables.items():
        rows = [row.format(i=i, smiles=s, label=s.count("C") % 2) for i, s in enumerate(MOLECULES)]
        write_file(Path(name), "\n".join([header, *rows]) + "\n")


def questions() -> None:
    for task in TASKS:
        write_task(Path("glue"), task)
    for name in ("train", "dev"):
        asked = [question(f"{name}-{i}", [("911", 15)] if i % 2 else []) for i in range(6)]
        write_file(Path(f"{name}-v2.0.json"), json.dumps(squad_json(*asked)))


if __name__ == "__main__":
    text()
    molecules()
    questions()
