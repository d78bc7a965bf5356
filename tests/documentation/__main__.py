"""Runs every command of README.md and docs/*.md as written, in the order of each page, in a clone of this repository.

    python -m tests.documentation [--page README.md docs/data.md ...] [--whole] [--folder DIR]

Clones the last commit, once for each page, and puts tiny versions of a user's files (inputs.py) and what a page presumes
(PRESUMED) into the clone. Not the commands but their surroundings make trainings small: every fairseq-train of a process
below gets the flags TINY. A page's shell commands run in one shell, its Python blocks in one interpreter. A command that
fails stops no other. With --whole, Snakemake also runs the grids that are otherwise listed only (-n).

Uses the Python that it is called with, and its packages. Exit status: 1 if a command failed.
"""

import argparse
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

# fairseq takes the last of repeated flags.
TINY = """
import os, sys

sys.modules["torchaudio"] = None  # as after `pip uninstall torchaudio`, of docs/huggingface.md
if "fairseq_cli.train" in sys.orig_argv or os.path.basename(sys.argv[0]) == "fairseq-train":
    sys.argv[:] = [word for word in sys.argv if word != "--fp16"] + (
        "--cpu --num-workers 0 --max-update 2 --batch-size 2 --update-freq 1 --encoder-layers 2 --encoder-embed-dim 16"
        " --encoder-ffn-embed-dim 16 --encoder-attention-heads 2"
    ).split()
"""
PYTHON = """
import sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    try:
        exec(compile(open(line.strip()).read(), line.strip(), "exec"), names)
    except BaseException:
        traceback.print_exc()
    else:
        print("@@ 0", flush=True)
        continue
    print("@@ 1", flush=True)
"""
# What is run of a command that matches: -n and --dry-run show what would be done.
DRY = 'snakemake() { command snakemake "$@" -n; }\npip() { command pip "$@" --dry-run; }\n{ %s\n}\nunset -f snakemake pip'
SERVE = "{ %s\n} >served 2>&1 & until grep 'Running on' served || ! kill -0 $!; do sleep 1; done; kill $! || (cat served; exit 1)"
LONG = "a grid of many trainings; --whole runs it"
DRY_RUNS = {
    r"^pip install (?!--no-index)": "the environment is that of the tests",
    r"local --cores 2 study": LONG,
    r"table2 table4": LONG,
    r"local(?s:.*) table3": LONG,
    r"local --cores 2 penalty": LONG,
    r"table1(?s:.*)clintox": LONG,
    r"^study ": LONG,
    r"profiles/slurm": "tests/slurm has a SLURM",
}
NOT_RUN = {
    r"^bash scripts/test.sh": "sets up .venv, then runs the whole suite",
    r"^pip wheel|^pip install --no-index": "builds fairseq, for another machine",
    r"^torchrun": "four machines",
    r"scontrol|^srun": "needs SLURM",
}
NEEDS = {
    r"snakemake|^study ": "snakemake",
    r"sentence_transf": "sentence_transformers",
    r"demo\.py": "gradio",
    r" dmpnn ": "chemprop",
}
TEXT = "python scripts/prepare_text.py data-bin/text --train wiki/ books/ --bpe gpt2/encoder.json gpt2/vocab.bpe --dictionary gpt2/dict.txt"
GIVEN = {
    "data-bin/text": TEXT,
    "data-bin/wiki": "fairseq-preprocess --only-source --srcdict gpt2/dict.txt --trainpref wiki.ids --validpref wiki.ids"
    " --destdir data-bin/wiki",
    "data-bin/smiles": "python scripts/prepare_smiles.py data-bin/smiles --train zinc.txt.gz",
    "checkpoints/exlm": "bash scripts/pretrain_text.sh exlm base data-bin/text checkpoints/exlm",
    "checkpoints/mlm": "bash scripts/pretrain_text.sh mlm base data-bin/text checkpoints/mlm",
    "checkpoint.pt": "bash scripts/pretrain_smiles.sh exlm small data-bin/smiles smiles --k 4 && cp smiles/checkpoint_last.pt checkpoint.pt",
    "glue-bin": "python scripts/prepare_glue.py glue glue-bin --data data-bin/text",
    "squad-bin": "python scripts/prepare_squad.py squad-bin --data data-bin/text --train train-v2.0.json --valid dev-v2.0.json",
}
PRESUMED = {
    "README.md": ["data-bin/wiki"],
    "experiments.md": [
        "data-bin/wiki",
        "data-bin/text",
        "data-bin/smiles",
        "checkpoints/exlm",
        "checkpoints/mlm",
        "glue-bin",
        "squad-bin",
    ],
    "explore.md": ["data-bin/text", "checkpoints/exlm"],
    "glue.md": ["data-bin/text", "checkpoints/exlm", "checkpoints/mlm"],
    "huggingface.md": ["data-bin/text", "checkpoints/exlm"],
    "measures.md": ["data-bin/smiles", "checkpoint.pt", "data-bin/text", "checkpoints/exlm"],
    "squad.md": ["data-bin/text", "checkpoints/exlm"],
}
ARRAYS = """
import torch
match, links = torch.randn(2, 3, 12).log_softmax(1), torch.randn(2, 12, 12).triu(1).log_softmax(-1)
node_lengths, target_lengths = torch.tensor([12, 12]), torch.tensor([3, 3])
"""  # of README's block on the operator


class Shell:
    """bash or Python, which runs texts one after the other."""

    def __init__(self, folder: Path, program: list[str], call: str):
        shim = folder.parent / "shim"
        shim.mkdir(exist_ok=True)
        (shim / "sitecustomize.py").write_text(TINY)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        set_here = {
            "PATH": path,
            "PYTHONPATH": f"{shim}:{folder}",
            "EXLM_PYTHON": sys.executable,
            "CUDA_VISIBLE_DEVICES": "0",
        }
        set_here |= {
            "HF_HOME": str(folder.parent / "huggingface"),
            "HF_HUB_OFFLINE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        self.folder, self.program, self.call = folder, program, call
        self.environment, self.process = os.environ | {"OMP_NUM_THREADS": "1"} | set_here, None

    def run(self, text: str, limit: float) -> tuple[int, str]:
        """Exit status, and the output with the errors."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                cwd=self.folder, env=self.environment, start_new_session=True, errors="replace",
            )  # fmt: skip
        script = self.folder.parent / "command"
        script.write_text(text)
        timer = threading.Timer(limit, self.close)
        timer.start()
        self.process.stdin.write(self.call.format(script) + "\n")
        self.process.stdin.flush()
        output = []
        for line in self.process.stdout:
            if line.startswith("@@ "):
                timer.cancel()
                return int(line.split()[1]), "".join(output)
            output.append(line)
        timer.cancel()
        self.close()
        return 1, "".join(output) + f"(ended, or stopped after {limit:.0f} seconds)\n"

    def close(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


def why(table: dict[str, str], command: Command) -> str | None:
    return next((reason for pattern, reason in table.items() if re.search(pattern, command.text)), None)


def shells(folder: Path) -> dict[str, Shell]:
    bash = Shell(folder, ["bash"], "source {} </dev/null; printf '\\n@@ %s\\n' $?")
    return {"bash": bash, "python": Shell(folder, [sys.executable, "-c", PYTHON], "{}")}


def given(base: Path, bash: Shell, names: list[str], folder: Path) -> None:
    """Copies what a page presumes into its folder; makes it first, once for all pages."""
    for name in names:
        if not (base / name).exists():
            status, output = bash.run(GIVEN[name], 1800)
            if status or not (base / name).exists():
                raise SystemExit(f"error: {GIVEN[name]!r} made no {name}:\n{output[-3000:]}")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (base / name).is_dir() else shutil.copy
        copy(base / name, folder / name)


def run(command: Command, shell: Shell, whole: bool, limit: float) -> tuple[str, str]:
    """How a command went, and its output if it failed."""
    lacking = [
        NEEDS[p] for p in NEEDS if re.search(p, command.text) and not importlib.util.find_spec(NEEDS[p])
    ]
    reason = why(NOT_RUN, command) or (f"{lacking[0]} is not installed" if lacking else None)
    if reason:
        return f"not run ({reason})", ""
    dry, text = why(DRY_RUNS, command), command.text
    if dry and not (whole and dry == LONG):
        text, kind = DRY % text, f"dry run ({dry})"
    else:
        text, kind = SERVE % text if "demo.py" in text else text, "run"
    if "dag_loss(match" in text:
        text = ARRAYS + text
    status, output = shell.run(text, limit)
    return ("FAILED", output) if status else (kind, "")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--page",
        nargs="+",
        metavar="PAGE",
        help="default: all",
        default=[str(p.relative_to(ROOT)) for p in PAGES],
    )
    add("--whole", action="store_true", help="run the grids, too (hours)")
    add("--folder", type=Path, help="empty folder for the clones, kept (default: a temporary one)")
    add("--limit", type=float, default=1200, metavar="SECONDS", help="of a command (default: %(default)s)")
    args = parser.parse_args()
    everything = [command.text for page in PAGES for command in commands(page)]
    for pattern in [*DRY_RUNS, *NOT_RUN, *NEEDS]:
        if not any(re.search(pattern, text) for text in everything):
            parser.error(f"{pattern!r} matches no command of the pages: remove it from the table")

    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary:
        top = (args.folder or Path(temporary)).resolve()
        base = top / "base" / "exlm"
        subprocess.run(["git", "clone", "--quiet", ROOT, base], check=True)
        for library in (ROOT / "fs_plugins" / "custom_ops").glob("*.so"):  # as scripts/setup_env.sh builds it
            shutil.copy(library, base / "fs_plugins" / "custom_ops")
        path = {"PYTHONPATH": f"{base}:{base / 'scripts'}"}
        subprocess.run(
            [sys.executable, "-m", "tests.documentation.inputs"], cwd=base, env=os.environ | path, check=True
        )
        untouched = top / "untouched"
        shutil.copytree(base, untouched)
        maker = shells(base)["bash"]
        for page in args.page:
            folder = top / page.replace("/", "-") / "exlm"
            shutil.copytree(untouched, folder)
            given(base, maker, PRESUMED.get(Path(page).name, []), folder)
            of_page = shells(folder)
            for command in commands(folder / page):
                started = time.monotonic()
                result, output = run(command, of_page[command.language], args.whole, args.limit)
                counts[result.split(" (")[0]] = counts.get(result.split(" (")[0], 0) + 1
                first = command.text.replace("\\\n", " ").split("\n")[0][:70]
                print(
                    f"{page}:{command.line}  {result}  {time.monotonic() - started:.0f} s  {first}",
                    flush=True,
                )
                for line in output.splitlines()[-25:]:
                    print(f"    {line[:200]}", flush=True)
            for shell in of_page.values():
                shell.close()
        maker.close()
    print(", ".join(f"{kind}: {number}" for kind, number in counts.items()))
    return int("FAILED" in counts)


if __name__ == "__main__":
    sys.exit(main())
