"""The library behind the scripts and the workflow: plans, output folders, formats, tables and figures.

``python scripts/NAME.py`` starts anew in .venv, as the shell scripts do, if this Python has no fairseq. As
for them, fs_plugins is this clone's, whatever is installed."""

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _find_environment() -> None:
    called = Path(getattr(sys.modules["__main__"], "__file__", None) or ".").resolve()
    is_script = called.parent == ROOT / "scripts"
    is_module = "".join(sys.orig_argv[1:3]).startswith("-mlib.")  # called by the shell scripts
    if not (is_script or is_module) or importlib.util.find_spec("fairseq"):
        return
    python = Path(os.environ.get("EXLM_VENV") or ROOT / ".venv", "bin", "python").absolute()
    if is_script and python.exists() and python != Path(sys.executable):
        os.execv(python, [str(python), *sys.orig_argv[1:]])
    print(f"error: {sys.executable} has no fairseq: bash scripts/setup_env.sh makes .venv", file=sys.stderr)
    sys.exit(2)


_find_environment()
sys.path.insert(1, str(ROOT))
