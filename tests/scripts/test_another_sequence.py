"""The recipe for proteins of docs/data.md, at a tiny size."""

import os
import random
import re
import subprocess
import sys

from lib.files import ROOT

from tests.integration import commands
from tests.support import builders

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
TINY = {
    "510": "30",
    "512": "32",
    " small ": " smoke ",
    "--sample-break-mode": "--cpu --updates 4 --sample-break-mode",
    "--max-tokens": "--valid-share 0.2 --workers 1 --max-tokens",
}


def test_proteins(tmp_path):
    recipe = (ROOT / "docs" / "data.md").read_text().split("## Another kind of sequence")[1]
    recipe = re.search("```bash\n(.*?)```", recipe, re.DOTALL)[1]
    for given, tiny in TINY.items():
        assert given in recipe
        recipe = recipe.replace(given, tiny)
    recipe = recipe.replace("scripts/", f"{ROOT}/scripts/").replace("python ", f"{sys.executable} ")
    rng = random.Random(1)
    proteins = ["".join(rng.choices(RESIDUES, k=rng.randrange(5, 50))) for _ in range(60)]
    wrapped = (f">P{i} a protein\n" + re.sub("(.{20})", r"\1\n", p) + "\n" for i, p in enumerate(proteins))
    (tmp_path / "proteins.fasta").write_text("".join(wrapped), newline="\r\n")  # as on Windows
    environment = {**os.environ, "EXLM_PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        ["bash", "-ec", recipe], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tokens = [builders.read_split(tmp_path / "data-bin" / "proteins", split) for split in ("train", "valid")]
    found = ["".join(sentence) for sentences in tokens for sentence in sentences if sentence]
    pieces = [p[i : i + 30] for p in proteins for i in range(0, len(p), 30)]
    assert sorted(found) == sorted(pieces)  # a token a residue, and each sequence a document
    assert all(len(token) == 1 for sentences in tokens for sentence in sentences for token in sentence)
    log = (tmp_path / "checkpoints" / "proteins" / "train.log").read_text()
    [valid] = commands.parse(log).stats["valid"]
    assert valid["valid_num_updates"] == "4" and float(valid["valid_loss"]) > 1
