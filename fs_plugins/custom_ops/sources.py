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

# Each kind of library is compiled from one source, which includes the common header and its own
# dag_<kind>_*.h(.cuh).
SOURCES = {"cpu": "dag_cpu.cpp", "cuda": "dag_cuda.cu"}

_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
LIBRARIES = {kind: f"libexlm_dag_{kind}{_SUFFIX}" for kind in SOURCES}


def source_path(kind: str) -> Path:
    """The source of the library of this kind ("cpu" or "cuda")."""
    return CSRC / SOURCES[kind]


def library_path(kind: str) -> Path:
    """Where the library of this kind lies once it is built; the file need not exist."""
    return CSRC.parent / LIBRARIES[kind]


def source_hash(kind: str) -> str:
    """First 16 hex digits of the SHA-256 over the source of this kind and the headers that it may include.

    It is compiled into the library (`exlm_dag_source_hash()`): so a library of older sources is noticed.
    """
    digest = hashlib.sha256()
    own_headers = sorted(CSRC.glob(f"dag_{kind}_*.h")) + sorted(CSRC.glob(f"dag_{kind}_*.cuh"))
    for path in (CSRC / HEADER, *own_headers, source_path(kind)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
