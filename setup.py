"""Compiles the DAG loss, which has a C ABI and needs no torch to build; all metadata is in pyproject.toml.

Environment variables:
  CXX                  the C++ compiler (default: the first of c++, g++, clang++ on the PATH)
  CUDA_HOME            where bin/nvcc is looked for before the PATH
  TORCH_CUDA_ARCH_LIST compute capabilities as torch reads them, "8.0;9.0+PTX" (default: nvcc's
                       -arch=all-major, every family that it knows, and PTX for newer ones)
  EXLM_NO_CUDA=1       don't build the CUDA library even where nvcc is
  EXLM_REQUIRE_OP=1    a library that cannot be built is an error instead of a warning
"""

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

OP_FOLDER = Path("fs_plugins", "custom_ops")
SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


def is_set(variable: str) -> bool:
    return os.environ.get(variable, "0") not in ("", "0")


def find_nvcc() -> str | None:
    home = os.environ.get("CUDA_HOME")
    return home and shutil.which("nvcc", path=str(Path(home, "bin"))) or shutil.which("nvcc")


def architecture_flags() -> list[str]:
    """nvcc's flags for TORCH_CUDA_ARCH_LIST."""
    flags = []
    for item in re.split(r"[\s;,]+", os.environ.get("TORCH_CUDA_ARCH_LIST", "").strip()):
        if match := re.fullmatch(r"(\d+)\.(\d+[af]?)(\+PTX)?", item):
            arch = match[1] + match[2]
            kinds = ("sm", "compute") if match[3] else ("sm",)
            flags += [f"-gencode=arch=compute_{arch},code={kind}_{arch}" for kind in kinds]
        elif item:
            raise SystemExit(
                f'error: TORCH_CUDA_ARCH_LIST: {item!r}: give compute capabilities, "8.0;9.0+PTX"'
            )
    return flags or ["-arch=all-major"]


def compile_commands() -> dict[str, list[str]]:
    """The compilers' command lines, without files. No -march=native and no fast maths: a wheel serves other
    machines too."""
    found = next(filter(shutil.which, ("c++", "g++", "clang++")), "c++")
    compiler = shlex.split(os.environ.get("CXX") or found)  # may carry arguments, as in "ccache g++"
    common = ["-O3", "-std=c++17", "-shared"]
    commands = {"cpu": [*compiler, *common, "-fPIC", "-fvisibility=hidden", "-pthread"]}
    if (nvcc := find_nvcc()) and not is_set("EXLM_NO_CUDA"):
        host = ["-Xcompiler", "-fPIC,-fvisibility=hidden"]
        host += ["-ccbin", compiler[-1]] if os.environ.get("CXX") else []
        commands["cuda"] = [nvcc, *common, *architecture_flags(), "--cudart=static", "--threads=0", *host]
    return commands


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
        folder, commands = Path("." if self.editable_mode else self.build_lib) / OP_FOLDER, compile_commands()
        folder.mkdir(parents=True, exist_ok=True)
        for kind, source in {"cpu": "dag_cpu.cpp", "cuda": "dag_cuda.cu"}.items():
            library = folder / f"libexlm_dag_{kind}{SUFFIX}"
            # one built from older sources must not stay; a process that has it open keeps it
            library.unlink(missing_ok=True)
            if kind in commands:
                command = [*commands[kind], "-o", str(library), str(OP_FOLDER / "csrc" / source)]
                print(shlex.join(command), flush=True)
                try:
                    subprocess.run(command, check=True)
                except (OSError, subprocess.CalledProcessError) as error:
                    self.report(f"the {kind} library of the DAG loss was not built: {error}")

    def report(self, failure: str) -> None:
        if is_set("EXLM_REQUIRE_OP"):
            raise SystemExit(f"error: {failure} (EXLM_REQUIRE_OP=1)")
        self.warn(
            f"{failure}. Plain PyTorch serves, slower; g++ or clang++ is needed (Debian: apt install g++)"
        )


class PlatformWheel(bdist_wheel):
    """py3-none-PLATFORM: the libraries depend on the platform, but not on the version of Python."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


build.sub_commands.append(("build_op", None))
setup(distclass=PlatformDistribution, cmdclass={"build_op": BuildOp, "bdist_wheel": PlatformWheel})
