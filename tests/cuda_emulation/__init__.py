"""The op's CUDA kernels on the CPU: compiled as C++ against an emulation of the CUDA execution model.

What this can show is that the kernels compute the right thing whatever the order of threads and blocks, and
that they read nothing that was not written. It says nothing about speed.
"""

import ctypes
import subprocess
from pathlib import Path

import torch

from fs_plugins.custom_ops import library

FOLDER = Path(__file__).resolve().parent
CSRC = library.FOLDER / "csrc"
OPTIONS = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Wno-unused-parameter"]
OPTIONS += ["-fPIC", "-shared", "-x", "c++"]


def build(target: Path) -> ctypes.CDLL:
    """Compiles the kernels and the emulation into the library ``target``."""
    files = [CSRC / "dag_cuda.cu", FOLDER / "emulation.cpp"]
    subprocess.run(["g++", *OPTIONS, f"-I{FOLDER}", f"-I{CSRC}", *files, "-o", target], check=True)
    return library.bind(target, "cuda")


class EmulatedKernels:
    """The library's CUDA functions under the names and with the arguments of the CPU library: the op can call
    them on CPU tensors. Outputs and working memory are filled with NaN before each call."""

    def __init__(self, compiled: ctypes.CDLL):
        self._library, self.reverse = compiled, compiled.exlm_emulation_reverse
        self._alphas: dict[int, torch.Tensor] = {}

    def exlm_dag_forward_cpu(self, dtype, B, M, L, match, links, n, m, log_prob, alpha, threads):
        assert dtype == library.FLOAT32
        # Of another size than the CPU library's, whose pointer stands for it.
        own = self._alphas[alpha] = poisoned(2 * B * M * L)
        ctypes.memset(log_prob, 0xFF, B * 4)
        run = self._library.exlm_dag_forward_cuda
        return run(B, M, L, match, links, n, m, log_prob, own.data_ptr(), None)

    def exlm_dag_backward_cpu(self, dtype, B, M, L, grad, match, links, n, m, a, grad_match, grad_links, _):
        ctypes.memset(grad_match, 0xFF, B * M * L * 4)
        ctypes.memset(grad_links, 0xFF, B * L * L * 4)
        own, workspace = self._alphas[a].data_ptr(), poisoned(2 * B * M * L)
        run = self._library.exlm_dag_backward_cuda
        return run(B, M, L, grad, match, links, n, m, own, grad_match, grad_links, workspace.data_ptr(), None)


def poisoned(numbers: int) -> torch.Tensor:
    return torch.full((max(numbers, 1),), torch.nan)
