"""Copies the code that exported models hold into the folders of pretrained/, which hold it too.

python -m tests.manual.refresh
"""

from pathlib import Path

from fs_plugins.huggingface.code_files import write_code

PRETRAINED = Path(__file__).resolve().parents[2] / "pretrained"

if __name__ == "__main__":
    for folder in (path for path in PRETRAINED.iterdir() if (path / "config.json").is_file()):
        write_code(folder)
