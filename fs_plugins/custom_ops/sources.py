"""Which sources the compiled op is built from, and where its libraries lie.

Standard library only, and no import of the package: `setup.py` loads this file by its path, before
anything is installed.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

CSRC = Path(__file__).resolve().parent / "csrc"
HEADER = "dag.h"

# Each device's library is compiled from one source, which includes the common header and its own
# dag_<device>_*.h(.cuh).
SOURCES = {"cpu": "dag_cpu.cpp", "cuda": "dag_cuda.cu"}

_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
LIBRARIES = {device: f"libexlm_dag_{device}{_SUFFIX}" for device in SOURCES}


def source_path(device: str) -> Path:
    """Returns the source of the library of "cpu" or "cuda"."""
    return CSRC / SOURCES[device]


def library_path(device: str) -> Path:
    """Returns where a device's library lies once it is built; the file need not exist."""
    return CSRC.parent / LIBRARIES[device]


def source_hash(device: str) -> str:
    """Returns 16 hex digits of the SHA-256 over a device's source and the headers that it may include.

    It is compiled into the library (`exlm_dag_source_hash()`): so a library of older sources is noticed.
    """
    digest = hashlib.sha256()
    own_headers = sorted(CSRC.glob(f"dag_{device}_*.h")) + sorted(CSRC.glob(f"dag_{device}_*.cuh"))
    for path in (CSRC / HEADER, *own_headers, source_path(device)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
