"""The library behind the scripts and the workflow: plans, output folders, formats, tables and figures."""

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[2]))  # this clone's fs_plugins, whatever is installed
