"""Loading of the compiled op: shared libraries with a C ABI (``csrc/dag.h``), called through ctypes.

``setup.py`` builds them beside this file.
"""

import ctypes
import functools
import logging
import sys
from ctypes import c_char_p, c_int, c_int64, c_void_p
from pathlib import Path

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).resolve().parent
VERSION, FLOAT32, FLOAT64 = 2, 0, 1  # as in dag.h
ERRORS = {
    -1: "unknown dtype code",
    -2: "a length is negative or larger than its dimension",
    -3: "out of memory",
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


def library_path(device: str) -> Path:
    """Returns where a library for "cpu" or "cuda" lies if it was built."""
    suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
    return FOLDER / f"libexlm_dag_{device}{suffix}"


@functools.cache
def load(device: str) -> ctypes.CDLL | None:
    """Returns the library for "cpu" or "cuda"; None, with one warning, if there is none that fits."""
    try:
        return bind(library_path(device), device)
    except (OSError, AttributeError, ImportError) as error:
        compiler = (
            "a C++ compiler (Debian: apt install g++)" if device == "cpu" else "nvcc and a C++ compiler"
        )
        logger.warning(
            "No compiled DAG op for %s (%s): plain PyTorch is used instead, many times slower. "
            "`pip install -e .` in the clone builds the op; it needs %s.",
            device,
            error,
            compiler,
        )
        return None


def bind(path: Path, device: str) -> ctypes.CDLL:
    """Returns a device's library with the types of its functions.

    Raises OSError, AttributeError or ImportError for a file that is missing or does not fit."""
    library = ctypes.CDLL(str(path))
    if library.exlm_dag_version() != VERSION:
        raise ImportError(f"{path} was built from another version of the sources")
    for name, (result, arguments) in _SIGNATURES[device].items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def check(code: int, name: str, library: ctypes.CDLL) -> None:
    """Raises for what a function of a library returned that is not 0.

    Raises:
        ValueError: for lengths that the function does not take.
        RuntimeError: for all else: "out of memory" (which fairseq-train looks for), or in CUDA's own words.
    """
    if code < 0:
        error = ValueError if code == -2 else RuntimeError
        raise error(f"{name}: {ERRORS.get(code, f'error {code}')}")
    raise RuntimeError(f"{name}: CUDA error {code}: {library.exlm_dag_error_string_cuda(code).decode()}")
