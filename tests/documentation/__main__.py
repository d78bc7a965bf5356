"""Runs every command of README.md and docs/*.md as written, each page in a clone of this repository.

    python -m tests.documentation [--page README.md docs/data.md ...] [--whole] [--folder DIR]

Clones the last commit for each page, and puts tiny versions of a user's files (inputs.py) and what the page
presumes into the clone. Trainings are made small by their surroundings, not by their commands: fairseq-train
gets the flags of TINY. One shell runs a page's shell commands, one interpreter its Python blocks. A command
that fails stops no other. With --whole, Snakemake also runs the grids that are otherwise only listed (-n).

Uses the Python that it is called with, and its packages. Exit status: 1 if a command failed.
"""

import argparse
import atexit
import collections
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.documentation.pages import PAGES, ROOT, Command, commands

# sitecustomize.py of all processes. fairseq takes the last of repeated flags.
TINY = """
import os, sys

sys.modules["torchaudio"] = None  # as after `pip uninstall torchaudio`, which docs/huggingface.md asks for
if "fairseq_cli.train" in sys.orig_argv or os.path.basename(sys.argv[0]) == "fairseq-train":
    small = "--encoder-layers 2 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16 --encoder-attention-heads 2"
    short = "--cpu --num-workers 0 --max-update 2 --batch-size 2 --update-freq 1"
    sys.argv[:] = [word for word in sys.argv if word != "--fp16"] + small.split() + short.split()
"""
PYTHON = """
import sys, traceback
names, status = {"__name__": "__main__"}, 0
for line in sys.stdin:
    try:
        exec(compile(open(line.strip()).read(), line.strip(), "exec"), names)
        status = 0
    except BaseException:
        traceback.print_exc()
        status = 1
    print("\\n@@", status, flush=True)
"""
DRY = """snakemake() { command snakemake "$@" -n; }; pip() { command pip "$@" --dry-run; }
{ %s
}; status=$?; unset -f snakemake pip; (exit $status)"""
SERVE = """{ %s
} >served 2>&1 & until grep 'Running on' served || ! kill -0 $!; do sleep 1; done
kill $! || (cat served; exit 1)"""
LONG = "a grid of many trainings: --whole runs it"
# pattern of commands -> why they are not run; each has to match a command
DRY_RUNS = {
    r"^pip install (?!--no-index)": "it would change this environment",
    r"--cores 2 (study|graphs|states)|table2 table4|profiles/local(?s:.*) table3|table1 table9": LONG,
    r"profiles/slurm": "no cluster here; tests/slurm has one",
}
NOT_RUN = {
    r"^pip wheel|^pip install --no-index": "builds fairseq, for another machine",
    r"^torchrun": "four machines",
    r"scontrol|^srun": "no cluster here",
}
NEEDS = {  # packages
    r"snakemake": "snakemake",
    r"transformers": "transformers",
    r"sentence_transformers": "sentence_transformers",
    r"demo\.py": "gradio",
    r" dmpnn ": "chemprop",
}
# what pages presume -> how it is made
BPE = "--bpe gpt2/encoder.json gpt2/vocab.bpe --dictionary gpt2/dict.txt"
GIVEN = {
    "data-bin/text": f"python scripts/prepare_text.py data-bin/text --train wiki/ books/ {BPE}",
    "data-bin/wiki": "fairseq-preprocess --only-source --srcdict gpt2/dict.txt --trainpref wiki.ids"
    " --validpref wiki.ids --destdir data-bin/wiki",
    "data-bin/smiles": "python scripts/prepare_smiles.py data-bin/smiles --train zinc.txt.gz",
    "data-bin/bbbp": "python scripts/prepare_moleculenet.py bbbp BBBP.csv data-bin/bbbp"
    " --dictionary data-bin/smiles",
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
    "docs/finetune.md": ("data-bin/text", "checkpoints/exlm", "checkpoints/mlm"),
    "docs/huggingface.md": ("data-bin/text", "checkpoints/exlm"),
}
ARRAYS = """import torch
match, links = torch.randn(2, 3, 12).log_softmax(1), torch.randn(2, 12, 12).triu(1).log_softmax(-1)
node_lengths, target_lengths = torch.tensor([12, 12]), torch.tensor([3, 3])
"""  # of the block on the operator


def found(table: dict[str, str], command: Command) -> str | None:
    return next((value for pattern, value in table.items() if re.search(pattern, command.text)), None)


class Shell:
    """bash or Python, which runs texts one after the other in a clone."""

    def __init__(self, clone: Path, program: list[str], call: str):
        self.clone, self.program, self.call, self.process = clone, program, call, None
        atexit.register(self.kill)
        (clone.parent / "sitecustomize.py").write_text(TINY)
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{clone.parent}:{clone}",
            "EXLM_PYTHON": sys.executable,
            "CUDA_VISIBLE_DEVICES": "0",  # the pages speak of GPUs; TINY uses none
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "HF_HOME": str(clone.parent / "huggingface"),
            "HF_HUB_OFFLINE": "1",
        }

    def run(self, text: str, limit: float) -> tuple[int, str]:
        """Exit status; output and errors."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        pipes |= {"text": True, "errors": "replace", "cwd": self.clone, "env": self.environment}
        self.process = self.process or subprocess.Popen(self.program, start_new_session=True, **pipes)
        script = self.clone.parent / "command"
        script.write_text(text)
        timer = threading.Timer(limit, self.kill)
        timer.start()
        print(self.call.format(script), file=self.process.stdin, flush=True)
        output, status = [], None
        for line in self.process.stdout:
            if line.startswith("@@ "):
                status = int(line.split()[1])
                break
            output.append(line)
        timer.cancel()
        if status is None:  # the next command gets a new shell
            self.kill()
            self.process, status = None, 1
            output.append(f"(the shell ended, or was ended after {limit:.0f} s)\n")
        return status, "".join(output)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, AttributeError):
            os.killpg(self.process.pid, signal.SIGKILL)


def shells(clone: Path) -> dict[str, Shell]:
    bash = Shell(clone, ["bash"], "source {} </dev/null; printf '\\n@@ %s\\n' $?")
    return {"bash": bash, "python": Shell(clone, [sys.executable, "-c", PYTHON], "{}")}


def run(command: Command, shell: Shell, whole: bool, limit: float) -> tuple[str, str]:
    """How a command went; its output if it failed."""
    package, dry, text = found(NEEDS, command), found(DRY_RUNS, command), command.text
    missing = package and not importlib.util.find_spec(package) and f"{package} is not installed"
    if reason := found(NOT_RUN, command) or missing:
        return f"not run ({reason})", ""
    if dry == LONG and whole:
        dry = None
    if command.language == "bash":
        text = DRY % text if dry else SERVE % text if "demo.py" in text else text
    status, output = shell.run(ARRAYS + text if "node_lengths" in text else text, limit)
    return ("FAILED", output) if status else (f"dry run ({dry})" if dry else "run", "")


def first_clone(top: Path) -> Path:
    """A clone with the inputs and the compiled op, as scripts/setup_env.sh leaves it."""
    clone = top / "first" / "exlm"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    for library in ROOT.glob("fs_plugins/custom_ops/*.so"):
        shutil.copy(library, clone / "fs_plugins" / "custom_ops")
    environment = os.environ | {"PYTHONPATH": f"{clone}:{clone / 'scripts'}"}
    subprocess.run([sys.executable, "-m", "tests.makers.user_files"], cwd=clone, env=environment, check=True)
    return shutil.copytree(clone, top / "clone")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.documentation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, names = parser.add_argument, [str(page.relative_to(ROOT)) for page in PAGES]
    add("--page", nargs="+", choices=names, default=names, metavar="PAGE", help="default: all")
    add("--whole", action="store_true", help="run the grids, too: hours")
    add("--folder", type=Path, help="a new folder for the clones, kept (default: a temporary one)")
    add("--limit", type=float, default=3600, metavar="SECONDS", help="of a command (default: %(default)s)")
    args = parser.parse_args()

    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as temporary:
        top = (args.folder or Path(temporary)).resolve()
        clone = first_clone(top)
        made, maker = top / "first" / "exlm", shells(top / "first" / "exlm")["bash"]
        for page in args.page:
            own = Path(shutil.copytree(clone, top / page.replace("/", "-") / "exlm"))
            for name in PRESUMED.get(page, ()):
                status, output = (0, "") if (made / name).exists() else maker.run(GIVEN[name], args.limit)
                if status:
                    raise SystemExit(f"error: {GIVEN[name]!r}, for {page}, failed:\n{output}")
                (own / name).parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(["cp", "-r", made / name, own / name], check=True)
            of_page = shells(own)
            for command in commands(own / page):
                start = time.monotonic()
                result, output = run(command, of_page[command.language], args.whole, args.limit)
                counts[result.split(" (")[0]] += 1
                shown = " ".join(command.text.split())[:80]
                print(f"{page}:{command.line}  {result}  {time.monotonic() - start:.0f} s  {shown}")
                print(
                    "".join(f"    {line[:200]}\n" for line in output.splitlines()[-25:]), end="", flush=True
                )
            for shell in of_page.values():
                shell.kill()

    print(", ".join(f"{kind}: {number}" for kind, number in counts.items()))
    return int(counts["FAILED"] > 0)


if __name__ == "__main__":
    sys.exit(main())
