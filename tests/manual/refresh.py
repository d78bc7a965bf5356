"""Brings the folders of pretrained/ to what an export of today writes; their cards stay.

python -m tests.manual.refresh
"""

import shutil
import tempfile
from pathlib import Path

from fs_plugins.huggingface.export import export

PRETRAINED = Path(__file__).resolve().parents[2] / "pretrained"

if __name__ == "__main__":
    for folder in (path for path in PRETRAINED.iterdir() if (path / "config.json").is_file()):
        with tempfile.TemporaryDirectory() as temporary:
            again = export(folder, Path(temporary, "again"), half=True)
            shutil.copytree(again, folder, ignore=shutil.ignore_patterns("README.md"), dirs_exist_ok=True)
