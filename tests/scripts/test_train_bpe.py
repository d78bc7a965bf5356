"""A BPE of one's own, trained on what prepare_text.py reads, serves it."""

import random
import re
import shlex
import subprocess

import prepare_text
import train_bpe
from lib.files import ROOT

from fs_plugins.data.text_codecs import read_bpe
from tests.support import builders


def main(script, *arguments) -> None:
    assert script.main([str(a) for a in arguments]) == 0


def test_the_same_text_gives_the_same_tokens(tmp_path):
    source = builders.write_file(tmp_path / "wiki.gz", builders.json_text())
    for name in ("a", "b"):
        main(train_bpe, tmp_path / name, source, "--vocabulary", 320)
    first, second = ((tmp_path / name / "tokenizer.json").read_bytes() for name in ("a", "b"))
    assert first == second
    bpe = read_bpe(tmp_path / "a")
    tokens = bpe.encode("The thing 3 is in the inn", first=True)
    assert "".join(tokens) == "ĠTheĠthingĠ3ĠisĠinĠtheĠinn" and len(tokens) < 15
    assert not any("Document" in token for token in bpe.tokens)  # a title is no text


def test_the_recipe_for_proteins(tmp_path, monkeypatch):
    """Of docs/data.md, up to its training: a token is a residue, and a sequence a document."""
    recipe = (ROOT / "docs" / "data.md").read_text().split("## Another kind of sequence")[1]
    to_text, *scripts = re.search("```bash\n(.*?)bash scripts", recipe, re.DOTALL)[1].splitlines()
    rng = random.Random(1)
    proteins = ["".join(rng.choices("ACDEFGHIKLMNPQRSTVWY", k=rng.randrange(5, 900))) for _ in range(60)]
    wrapped = (f">P{i} a protein\n" + re.sub("(.{60})", r"\1\n", p) + "\n" for i, p in enumerate(proteins))
    (tmp_path / "proteins.fasta").write_text("".join(wrapped), newline="\r\n")  # as on Windows
    monkeypatch.chdir(tmp_path)
    subprocess.run(["bash", "-ec", to_text], check=True)
    for script, command in zip((train_bpe, prepare_text), scripts, strict=True):
        main(script, *shlex.split(command, comments=True)[2:])
    tokens = [builders.read_split(tmp_path / "data-bin" / "proteins", split) for split in ("train", "valid")]
    found = [sentence for sentences in tokens for sentence in sentences if sentence]
    assert sorted(found) == sorted([*p[i : i + 510]] for p in proteins for i in range(0, len(p), 510))
