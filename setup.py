"""Compiles the DAG loss, which has a C ABI and needs no torch to build; all metadata is in pyproject.toml.

Environment variables:
  CXX                  the C++ compiler (default: the first of c++, g++, clang++ on the PATH)
  CUDA_HOME            where bin/nvcc is looked for before the PATH
  TORCH_CUDA_ARCH_LIST compute capabilities as torch reads them, "8.0;9.0+PTX" (default: nvcc's
                       -arch=all-major, every family that it knows, and PTX for newer ones)
  EXLM_NO_CUDA=1       don't build the CUDA library even where nvcc is
  EXLM_REQUIRE_OP=1    a library that cannot be built is an error instead of a warning
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

ROOT = Path(__file__).resolve().parent
OP_FOLDER = Path("fs_plugins", "custom_ops")
SOURCES = {"cpu": "dag_cpu.cpp", "cuda": "dag_cuda.cu"}
SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


class BuildFailure(Exception):
    """A library could not be built; the message says what to tell the user."""


def find_compiler() -> list[str]:
    """The C++ compiler as a command; $CXX may carry arguments, as in "ccache g++"."""
    if chosen := shlex.split(os.environ.get("CXX", "")):
        return chosen
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise BuildFailure("no C++ compiler found (c++, g++, clang++ or $CXX); on Debian: apt install g++")


def find_nvcc() -> str | None:
    home = os.environ.get("CUDA_HOME")
    return home and shutil.which("nvcc", path=str(Path(home, "bin"))) or shutil.which("nvcc")


def architecture_flags() -> list[str]:
    """nvcc's flags for TORCH_CUDA_ARCH_LIST."""
    flags = []
    for item in re.split(r"[\s;,]+", os.environ.get("TORCH_CUDA_ARCH_LIST", "").strip()):
        match = re.fullmatch(r"(\d+)\.(\d+[af]?)(\+PTX)?", item)
        if match is None and item:
            raise SystemExit(
                f"error: TORCH_CUDA_ARCH_LIST: {item!r} is not understood: write compute capabilities "
                'such as "8.0;9.0+PTX" (A100: 8.0, RTX 30: 8.6, RTX 40: 8.9, H100: 9.0)'
            )
        if match:
            arch = match[1] + match[2]
            kinds = ("sm", "compute") if match[3] else ("sm",)
            flags += [f"-gencode=arch=compute_{arch},code={kind}_{arch}" for kind in kinds]
    return flags or ["-arch=all-major"]


def compile_command(kind: str, source: Path, output: Path) -> list[str]:
    """The compiler's command line. No -march=native and no fast maths: a wheel serves other machines too."""
    common = ["-O3", "-std=c++17", "-shared", f"-I{source.parent}", "-o", str(output), str(source)]
    if kind == "cpu":
        return [*find_compiler(), "-fPIC", "-fvisibility=hidden", "-pthread", *common]
    host = ["-Xcompiler", "-fPIC,-fvisibility=hidden", "--cudart=static", "--threads=0"]
    if os.environ.get("CXX"):
        host += ["-ccbin", find_compiler()[-1]]
    return [find_nvcc(), *architecture_flags(), *host, *common]


def compile_library(kind: str, source: Path, target: Path) -> None:
    """Compiles beside the target, then moves it there: a process that has the old library open keeps it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    command = compile_command(kind, source, fresh)
    print(shlex.join(command), flush=True)
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if result.returncode != 0:
            last_lines = "\n    ".join(result.stdout.decode(errors="replace").strip().splitlines()[-15:])
            raise BuildFailure(f"{command[0]} failed (exit status {result.returncode}):\n    {last_lines}")
        os.replace(fresh, target)
    except OSError as error:
        raise BuildFailure(f"{command[0]} could not be run: {error}") from error
    finally:
        fresh.unlink(missing_ok=True)


class BuildOp(Command):
    """Builds the libraries into the wheel, or into the tree for an editable install."""

    description = "compile the DAG loss for the CPU, and for CUDA where nvcc is"
    user_options = [("build-lib=", "d", "the folder to build into")]

    def initialize_options(self):
        self.build_lib = None
        self.editable_mode = False  # set by setuptools' editable_wheel

    def finalize_options(self):
        self.set_undefined_options("build", ("build_lib", "build_lib"))

    def run(self):
        cuda = find_nvcc() is not None and os.environ.get("EXLM_NO_CUDA", "0") in ("", "0")
        if cuda:
            architecture_flags()  # a mistake in them stops the install before anything is compiled
        for kind, source in SOURCES.items():
            target = (
                (ROOT if self.editable_mode else Path(self.build_lib))
                / OP_FOLDER
                / f"libexlm_dag_{kind}{SUFFIX}"
            )
            target.unlink(missing_ok=True)  # one built from older sources must not stay
            if kind == "cpu" or cuda:
                try:
                    compile_library(kind, ROOT / OP_FOLDER / "csrc" / source, target)
                except BuildFailure as failure:
                    self.report(kind, failure)

    def report(self, kind: str, failure: BuildFailure) -> None:
        if os.environ.get("EXLM_REQUIRE_OP", "0") not in ("", "0"):
            raise SystemExit(f"error: EXLM_REQUIRE_OP=1, and the {kind} library was not built: {failure}")
        self.warn(
            f"the {kind} library of the DAG loss was not built: {failure}\n"
            "  The install goes on: the plain PyTorch path will serve there, with the same results, slower."
        )


class Build(build):
    """Starts from an empty build folder: setuptools would pack what older builds have left there."""

    sub_commands = [*build.sub_commands, ("build_op", None)]

    def run(self):
        if Path(self.build_lib).resolve().is_relative_to(ROOT / "build"):  # not a user's --build-lib
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class PlatformWheel(bdist_wheel):
    """py3-none-PLATFORM: the libraries depend on the platform, but not on the version of Python."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(
    distclass=PlatformDistribution,
    cmdclass={"build": Build, "build_op": BuildOp, "bdist_wheel": PlatformWheel},
)
