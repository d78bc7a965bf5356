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

FLOAT32, FLOAT64 = 0, 1
ERRORS = {
    -1: "unknown dtype code",
    -2: "a length is negative or larger than its dimension",
    -3: "out of memory",
    -4: "the sizes exceed the GPU kernels' 16,352 nodes or 1,048,576 targets",
}

_P = c_void_p
_SIZES = [c_int64, c_int64, c_int64]  # B, M, L
_SIGNATURES = {
    "cpu": {
        "exlm_dag_forward_cpu": (c_int, [c_int, *_SIZES, _P, _P, _P, _P, _P, _P, c_int]),
        "exlm_dag_backward_cpu": (c_int, [c_int, *_SIZES, _P, _P, _P, _P, _P, _P, _P, _P, c_int]),
    },
    "cuda": {
        "exlm_dag_error_string_cuda": (c_char_p, [c_int]),
        "exlm_dag_forward_cuda": (c_int, [*_SIZES, _P, _P, _P, _P, _P, _P, _P]),
        "exlm_dag_backward_cuda": (c_int, [*_SIZES, _P, _P, _P, _P, _P, _P, _P, _P, _P, _P]),
    },
}


@functools.cache
def load(device: str) -> ctypes.CDLL | None:
    """Returns the library for "cpu" or "cuda"; None, with one warning, if there is none that fits."""
    reasons = []
    for path in _candidates(device):
        try:
            return _open(path, device)
        except (OSError, AttributeError, ImportError) as error:
            reasons.append(f"{path}: {error}")
    found = "; ".join(reasons) if reasons else f"{sources.library_path(device).name} was not built"
    logger.warning(
        "No compiled DAG op for %s (%s): the plain PyTorch path serves, which is many times slower. "
        "`pip install .` in the clone builds the op; it needs %s.",
        device,
        found,
        "a C++ compiler (Debian: apt-get install g++)" if device == "cpu" else "nvcc and a C++ compiler",
    )
    return None


def _candidates(device: str) -> list[Path]:
    """Returns library files: beside this file, and in other copies of the package on ``sys.path``."""
    built = sources.library_path(device)
    elsewhere = [Path(entry) / "fs_plugins" / "custom_ops" / built.name for entry in sys.path if entry]
    return [path for path in dict.fromkeys([built, *elsewhere]) if path.is_file()]


def _open(path: Path, device: str) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.exlm_dag_source_hash.restype = c_char_p
    built_from = library.exlm_dag_source_hash().decode()
    if built_from != sources.source_hash(device):
        raise ImportError("it was built from other sources than those beside this package")
    for name, (result, arguments) in _SIGNATURES[device].items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def check(code: int, name: str, library: ctypes.CDLL) -> None:
    """Raises for what a function of a library returned that is not 0.

    Raises:
        ValueError: for lengths or sizes that the function does not take.
        RuntimeError: for all else: "out of memory" (which fairseq-train looks for), or in CUDA's own words.
    """
    if code < 0:
        error = ValueError if code in (-2, -4) else RuntimeError
        raise error(f"{name}: {ERRORS.get(code, f'error {code}')}")
    raise RuntimeError(f"{name}: CUDA error {code}: {library.exlm_dag_error_string_cuda(code).decode()}")
