"""The op's CUDA kernels on the CPU: compiled as C++ against an emulation of the CUDA execution model.

What this can show is that the kernels compute the right thing whatever the order of threads and blocks, and
that they read nothing that was not written. It says nothing about speed.
"""

import ctypes
import shlex
import subprocess
from ctypes import c_uint
from pathlib import Path

import torch

from fs_plugins.custom_ops import library

FOLDER = Path(__file__).resolve().parent
OPTIONS = "-std=c++17 -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-parameter -fPIC -shared"
CSRC = library.FOLDER / "csrc"
WORD = 4  # bytes of a float32


def build(compiler: str, target: Path, options: str = "-O2") -> "EmulatedKernels":
    """Compiles the kernels and the emulation into the library `target`."""
    command = [compiler, *shlex.split(OPTIONS), *shlex.split(options), f"-I{FOLDER}", f"-I{CSRC}"]
    files = [str(CSRC / "dag_cuda.cu"), str(FOLDER / "emulation.cpp")]
    command += ["-x", "c++", *files, "-o", str(target)]
    subprocess.run(command, check=True)
    return EmulatedKernels(target)


class EmulatedKernels:
    """The library's CUDA functions under the names and with the arguments of the CPU library: the op can call
    them on CPU tensors. Outputs and working memory are filled with NaN before each call."""

    def __init__(self, path: Path):
        self._library = library.bind(path, "cuda")
        self._library.exlm_emulation_set.argtypes = [c_uint]
        self._alphas: dict[int, torch.Tensor] = {}
        self.set(0)

    def set(self, order: int) -> None:
        """Sets the order of threads and blocks."""
        self._library.exlm_emulation_set(order)

    def exlm_dag_forward_cpu(self, dtype, B, M, L, match, links, n, m, log_prob, alpha, threads):
        assert dtype == library.FLOAT32
        # Of another size than the CPU library's, whose pointer stands for it.
        own = self._alphas[alpha] = poisoned(2 * B * M * L)
        ctypes.memset(log_prob, 0xFF, B * WORD)
        return self._library.exlm_dag_forward_cuda(
            B, M, L, match, links, n, m, log_prob, own.data_ptr(), None
        )

    def exlm_dag_backward_cpu(
        self, dtype, B, M, L, grad, match, links, n, m, alpha, grad_match, grad_links, threads
    ):
        ctypes.memset(grad_match, 0xFF, B * M * L * WORD)
        ctypes.memset(grad_links, 0xFF, B * L * L * WORD)
        own, workspace = self._alphas[alpha].data_ptr(), poisoned(2 * B * M * L)
        return self._library.exlm_dag_backward_cuda(
            B, M, L, grad, match, links, n, m, own, grad_match, grad_links, workspace.data_ptr(), None
        )


def poisoned(numbers: int) -> torch.Tensor:
    return torch.full((max(numbers, 1),), torch.nan)
