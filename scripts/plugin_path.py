"""Imported first by scripts that use fs_plugins: finds it beside them, where ExLM is not installed."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(1, str(ROOT))
