"""Loading of the compiled op: plain shared libraries with a C ABI (``csrc/dag.h``), called through ctypes.

``pip install`` builds them beside this file. A clone whose libraries were built into an installed copy of
the package (``pip install .`` and ``--user-dir fs_plugins`` from the clone) finds them there, if they come
from the same sources.
"""

import ctypes
import functools
import logging
import sys
from ctypes import c_char_p, c_int, c_int64, c_void_p
from pathlib import Path

from fs_plugins.custom_ops import sources

logger = logging.getLogger(__name__)

ABI_VERSION = 1
PASS_FORWARD, PASS_BACKWARD, PASS_ALIGNMENT = 0, 1, 2
FLOAT32, FLOAT64 = 0, 1
ERRORS = {
    -1: "unknown dtype code",
    -2: "a length is negative or larger than its dimension",
    -3: "out of memory",
}

_P = c_void_p
_SIZES = [c_int, c_int64, c_int64, c_int64]  # dtype, B, M, L
_SIGNATURES = {
    "cpu": {
        "exlm_dag_forward_cpu": (c_int, [*_SIZES, _P, _P, _P, _P, _P, _P, c_int]),
        "exlm_dag_backward_cpu": (c_int, [*_SIZES, _P, _P, _P, _P, _P, _P, _P, _P, c_int]),
        "exlm_dag_best_alignment_cpu": (c_int, [*_SIZES, _P, _P, _P, _P, _P, c_int]),
    },
    "cuda": {
        "exlm_dag_workspace_cuda": (c_int64, [c_int, *_SIZES]),
        "exlm_dag_forward_cuda": (c_int, [*_SIZES, _P, _P, _P, _P, _P, _P, _P, _P]),
        "exlm_dag_backward_cuda": (c_int, [*_SIZES, _P, _P, _P, _P, _P, _P, _P, _P, _P, _P]),
        "exlm_dag_best_alignment_cuda": (c_int, [*_SIZES, _P, _P, _P, _P, _P, _P, _P]),
    },
}


@functools.cache
def load(kind: str) -> ctypes.CDLL | None:
    """The library for ``kind`` ("cpu", "cuda"), or None, with one warning, where there is none that fits."""
    reasons = []
    for path in _candidates(kind):
        try:
            library = _open(path, kind)
        except (OSError, AttributeError, ImportError) as error:
            reasons.append(f"{path}: {error}")
            continue
        return library
    found = "; ".join(reasons) if reasons else f"{sources.library_path(kind).name} was not built"
    logger.warning(
        "No compiled DAG op for %s (%s): the plain PyTorch path serves, which is many times slower. "
        "`pip install .` in the clone builds the op; it needs %s.",
        kind,
        found,
        "a C++ compiler (Debian: apt-get install g++)" if kind == "cpu" else "nvcc and a C++ compiler",
    )
    return None


def _candidates(kind: str) -> list[Path]:
    """Existing library files: beside this file, else in other copies of the package on ``sys.path``."""
    own = Path(sources.library_path(kind))
    elsewhere = [Path(entry) / "fs_plugins" / "custom_ops" / own.name for entry in sys.path if entry]
    return [path for path in dict.fromkeys([own, *elsewhere]) if path.is_file()]


def _open(path: Path, kind: str) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    version = library.exlm_dag_abi_version()
    if version != ABI_VERSION:
        raise ImportError(f"its ABI version is {version}, this package needs {ABI_VERSION}")
    library.exlm_dag_source_hash.restype = c_char_p
    built_from = library.exlm_dag_source_hash().decode()
    if built_from != sources.source_hash(kind):
        raise ImportError("it was built from other sources than those beside this package")
    for name, (result, arguments) in _SIGNATURES[kind].items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def check(code: int, name: str) -> None:
    """Raises for a non-zero return code of a library function."""
    if code == 0:
        return
    if code == -2:
        raise ValueError(f"{name}: {ERRORS[code]}")
    raise RuntimeError(f"{name}: {ERRORS.get(code, f'CUDA error {code}')}")
