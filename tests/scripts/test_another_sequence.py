"""The recipe for proteins of docs/data.md, at a tiny size."""

import importlib
import random
import re
import shlex
import subprocess
from pathlib import Path

from lib.files import ROOT

from tests.integration import commands
from tests.support import builders, pages

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
TINY = {
    "510": "30",
    "512": "32",
    " small ": " smoke ",
    "--sample-break-mode": "--cpu --updates 4 --sample-break-mode",
    "--max-tokens": "--valid-share 0.2 --workers 1 --max-tokens",
}


def test_proteins(tmp_path, monkeypatch):
    recipe = (ROOT / "docs" / "data.md").read_text().split("## Another kind of sequence")[1]
    recipe = re.search("```bash\n(.*?)```", recipe, re.DOTALL)[1]
    for given, tiny in TINY.items():
        assert given in recipe
        recipe = recipe.replace(given, tiny)
    rng = random.Random(1)
    proteins = ["".join(rng.choices(RESIDUES, k=rng.randrange(5, 50))) for _ in range(60)]
    wrapped = (f">P{i} a protein\n" + re.sub("(.{20})", r"\1\n", p) + "\n" for i, p in enumerate(proteins))
    (tmp_path / "proteins.fasta").write_text("".join(wrapped), newline="\r\n")  # as on Windows
    monkeypatch.chdir(tmp_path)
    for command in recipe.replace("\\\n", "").splitlines():
        program, *words = shlex.split(command, comments=True)
        if program == "bash":
            pages.run(Path(words[0]).stem, *words[1:])
        elif program == "python":
            assert importlib.import_module(Path(words[0]).stem).main(words[1:]) == 0
        else:
            subprocess.run(["bash", "-ec", command], check=True)
    tokens = [builders.read_split(tmp_path / "data-bin" / "proteins", split) for split in ("train", "valid")]
    found = [sentence for sentences in tokens for sentence in sentences if sentence]
    pieces = [[*p[i : i + 30]] for p in proteins for i in range(0, len(p), 30)]
    assert sorted(found) == sorted(pieces)  # a token a residue, and each sequence a document
    [valid] = commands.Run((tmp_path / "checkpoints/proteins/train.log").read_text()).stats["valid"]
    assert valid["valid_num_updates"] == "4" and float(valid["valid_loss"]) > 1
