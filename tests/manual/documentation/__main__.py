"""Runs every command of README.md and docs/*.md as written, each page in a clone of this repository.

    python -m tests.manual.documentation                       all pages (an hour)
    python -m tests.manual.documentation README.md docs/data.md

Clones the last commit for each page, and puts tiny versions of a user's files (support/user_files.py) and
what the page presumes into the clone. Trainings are made small by their surroundings, not by their commands:
fairseq-train gets the flags of TINY. A page is one program of bash, which a command that fails does not end.

Uses the Python that it is called with, and its packages. Exit status 1 if a command failed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.manual.documentation.pages import PAGES, ROOT, commands

# sitecustomize.py of all processes. fairseq takes the last of repeated flags.
TINY = """
import os, sys

sys.modules["torchaudio"] = None  # as after `pip uninstall torchaudio`, which docs/huggingface.md asks for
if "fairseq_cli.train" in " ".join(sys.orig_argv) or os.path.basename(sys.argv[0]) == "fairseq-train":
    small = "--encoder-layers 2 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16 --encoder-attention-heads 2"
    short = "--cpu --num-workers 0 --max-update 2 --batch-size 2 --update-freq 1"
    sys.argv[:] = [word for word in sys.argv if word != "--fp16"] + small.split() + short.split()
"""
# pattern of commands -> why they are not run; each has to match a command
NOT_RUN = {
    r"^pip wheel|^pip install --no-index": "builds fairseq, for another machine",
    r"^torchrun": "four machines",
    r"scontrol|^srun": "no cluster here",
    r"^chemprop": "has an environment of its own",
}
# pip changes nothing, and Snakemake lists what it would run, but for one table of the README
BEGIN = """
pip() { command pip "$@" --dry-run; }
snakemake() { [[ $* == *" table2 --config "* ]] || set -- "$@" -n; command snakemake "$@"; }
"""
END = """
((${#failed[@]} == 0)) || { echo "FAILED: ${failed[*]}" && false; }
"""
# what pages presume -> how it is made
BPE = "--bpe gpt2/encoder.json gpt2/vocab.bpe --dictionary gpt2/dict.txt"
GIVEN = {
    "data-bin/text": f"python scripts/prepare_text.py data-bin/text --train wiki/ books/ {BPE}",
    "data-bin/wiki": "fairseq-preprocess --only-source --srcdict gpt2/dict.txt --trainpref wiki.ids"
    " --validpref wiki.ids --destdir data-bin/wiki",
    "data-bin/smiles": "python scripts/prepare_smiles.py data-bin/smiles --train zinc.txt.gz",
    "data-bin/bbbp": "python scripts/prepare_moleculenet.py bbbp BBBP.csv data-bin/bbbp"
    " --dictionary data-bin/smiles",
    "data-bin/bace": "python scripts/prepare_moleculenet.py bace BACE.csv data-bin/bace"
    " --dictionary data-bin/smiles",
    "checkpoints/exlm-smiles": "bash scripts/pretrain_smiles.sh exlm paper data-bin/smiles"
    " checkpoints/exlm-smiles",
    "checkpoints/mlm-smiles": "bash scripts/pretrain_smiles.sh mlm paper data-bin/smiles"
    " checkpoints/mlm-smiles",
    "checkpoints/exlm": "bash scripts/pretrain_text.sh exlm base data-bin/text checkpoints/exlm",
    "checkpoints/mlm": "bash scripts/pretrain_text.sh mlm base data-bin/text checkpoints/mlm",
    "checkpoint.pt": "bash scripts/pretrain_smiles.sh exlm small data-bin/smiles smiles --k 4"
    " && cp smiles/checkpoint_last.pt checkpoint.pt",
    "glue-bin": "python scripts/prepare_glue.py glue glue-bin --data data-bin/text",
    "squad-bin": "python scripts/prepare_squad.py squad-bin --data data-bin/text"
    " --train train-v2.0.json --valid dev-v2.0.json",
}
PRESUMED = {  # in the order in which they are made
    "docs/architectures.md": ("data-bin/wiki", "data-bin/text", "glue-bin", "checkpoints/exlm"),
    "docs/experiments.md": tuple(name for name in GIVEN if name not in ("checkpoint.pt", "data-bin/wiki")),
    "docs/analysis.md": ("data-bin/smiles", "checkpoint.pt", "data-bin/text", "checkpoints/exlm"),
    "docs/extensions.md": ("data-bin/smiles",),
    "docs/finetune.md": (
        *("data-bin/text", "checkpoints/exlm", "checkpoints/mlm"),
        *("data-bin/smiles", "data-bin/bace", "checkpoints/exlm-smiles", "checkpoints/mlm-smiles"),
    ),
    "docs/huggingface.md": ("data-bin/text", "checkpoints/exlm"),
}
ARRAYS = """import torch
match, links = torch.randn(2, 3, 12).log_softmax(1), torch.randn(2, 12, 12).triu(1).log_softmax(-1)
node_lengths, target_lengths = torch.tensor([12, 12]), torch.tensor([3, 3])
"""  # of the block on the operator


def program(page: Path) -> str:
    """All commands of a page, each after its line; those that failed at the end."""
    parts, blocks = [BEGIN], ARRAYS
    for command in commands(page):
        text, label = command.text, f"{page.name}:{command.line}"
        if reason := next((why for pattern, why in NOT_RUN.items() if re.search(pattern, text)), None):
            parts.append(f"echo '{label} is not run: {reason}'")
            continue
        if command.language == "python":
            blocks += text  # names of a block are used by the next
            text = f"python - <<'BLOCK'\n{blocks}\nBLOCK"
        elif "demo.py" in text:  # serves until it is stopped
            text = f"timeout 90 {text}\n(($? == 124))"
        parts.append(f"printf '\\n{label}\\n'\n{{\n{text}\n}} || failed+=({label})")
    return "\n".join([*parts, END])


def run(text: str, clone: Path) -> int:
    """The exit status of a program of bash in a clone."""
    (clone.parent / "sitecustomize.py").write_text(TINY)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{clone.parent}:{clone}:{clone / 'scripts'}",
        "EXLM_PYTHON": sys.executable,
        "CUDA_VISIBLE_DEVICES": "0",  # the pages speak of GPUs; TINY uses none
        "OMP_NUM_THREADS": "1",
        "HF_HOME": str(clone.parent / "huggingface"),
        "HF_HUB_OFFLINE": "1",
    }
    return subprocess.run(
        ["bash", "-c", text], cwd=clone, env=environment, stdin=subprocess.DEVNULL
    ).returncode


def main(names: list[str]) -> int:
    known, status = {str(page.relative_to(ROOT)): page for page in PAGES}, 0
    if unknown := set(names) - set(known):
        raise SystemExit(f"error: {', '.join(unknown)}: choose from {', '.join(known)}")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "first", "exlm")  # with what the pages presume
        subprocess.run(["git", "clone", "--quiet", ROOT, made], check=True)
        for library in ROOT.glob("fs_plugins/custom_ops/*.so"):
            shutil.copy(library, made / "fs_plugins" / "custom_ops")
        if run("python -m tests.support.user_files", made):
            raise SystemExit("error: the users' files could not be made")
        clone = shutil.copytree(made, Path(folder, "clone"))
        for name in names or known:
            own = Path(shutil.copytree(clone, Path(folder, name.replace("/", "-"), "exlm")))
            for needed in PRESUMED.get(name, ()):
                if not (made / needed).exists() and run(GIVEN[needed], made):
                    raise SystemExit(f"error: {GIVEN[needed]!r}, for {name}, failed")
                subprocess.run(["cp", "-r", "--parents", needed, own], cwd=made, check=True)
            status |= run(program(known[name]), own)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
