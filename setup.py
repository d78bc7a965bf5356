"""Compiles the DAG loss, which has a C ABI and needs no torch to build; all metadata is in pyproject.toml.

Environment variables:
  CXX                  the C++ compiler (default: the first of c++, g++, clang++ on the PATH)
  CUDA_HOME            where bin/nvcc is looked for before the PATH
  TORCH_CUDA_ARCH_LIST GPU architectures as torch reads them, "8.0;9.0+PTX"
                       (default: those from 7.0 to 9.0 that this nvcc knows, and PTX of the newest)
  EXLM_NO_CUDA=1       don't build the CUDA library even where nvcc is
  EXLM_REQUIRE_OP=1    a library that cannot be built is an error instead of a warning
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

ROOT = Path(__file__).resolve().parent
OP_FOLDER = Path("fs_plugins", "custom_ops")
DEFAULT_ARCHITECTURES = (70, 75, 80, 86, 89, 90)


def load_sources():
    """`fs_plugins/custom_ops/sources.py` by its path: importing the package would import fairseq."""
    spec = importlib.util.spec_from_file_location("exlm_sources", ROOT / OP_FOLDER / "sources.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildFailure(Exception):
    """A library could not be built; the message says what to tell the user."""


def switched_on(name: str) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if value not in ("", "0", "1", "true", "false", "yes", "no"):
        raise SystemExit(f"error: {name}={value!r} is not understood: set it to 1 or 0")
    return value in ("1", "true", "yes")


def find_compiler() -> list[str]:
    """The C++ compiler as a command; $CXX may carry arguments, as in "ccache g++"."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    if chosen:
        if shutil.which(chosen[0]) is None:
            raise BuildFailure(f"CXX={os.environ['CXX']!r}: there is no command {chosen[0]!r}")
        return chosen
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise BuildFailure("no C++ compiler found (c++, g++, clang++ or $CXX); on Debian: apt install g++")


def find_nvcc() -> str | None:
    home = os.environ.get("CUDA_HOME")
    if home and (nvcc := shutil.which("nvcc", path=str(Path(home, "bin")))):
        return nvcc
    return shutil.which("nvcc")


def parse_architectures(text: str) -> list[tuple[str, bool]]:
    """TORCH_CUDA_ARCH_LIST as torch reads it: "8.0;9.0+PTX" -> [("80", False), ("90", True)]."""
    found = []
    for item in re.split(r"[\s;,]+", text.strip()):
        match = re.fullmatch(r"(\d+)\.(\d+[af]?)(\+PTX)?", item)
        if match is None:
            raise SystemExit(
                f"error: TORCH_CUDA_ARCH_LIST={text!r}: {item!r} is not understood. Names of GPU families "
                'are not read here: write compute capabilities such as "8.0;9.0+PTX" '
                "(A100: 8.0, RTX 30: 8.6, RTX 40: 8.9, H100: 9.0)"
            )
        major, minor, ptx = match.groups()
        found.append((major + minor, ptx is not None))
    return found


def default_architectures(nvcc: str) -> list[tuple[str, bool]]:
    """Volta to Hopper as far as this nvcc knows them, with PTX of the newest for the GPUs after it."""
    listing = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True)
    known = {int(number) for number in re.findall(r"compute_(\d+)\b", listing.stdout)}
    usable = [arch for arch in DEFAULT_ARCHITECTURES if arch in known]
    if not usable:
        said = (listing.stderr or listing.stdout).strip()[-300:]
        raise BuildFailure(f"`{nvcc} --list-gpu-arch` names none of {DEFAULT_ARCHITECTURES}, but {said!r}")
    return [(str(arch), arch == usable[-1]) for arch in usable]


def architecture_flags(nvcc: str) -> list[str]:
    asked = os.environ.get("TORCH_CUDA_ARCH_LIST", "").strip()
    flags = []
    for arch, ptx in parse_architectures(asked) if asked else default_architectures(nvcc):
        flags.append(f"-gencode=arch=compute_{arch},code=sm_{arch}")
        if ptx:
            flags.append(f"-gencode=arch=compute_{arch},code=compute_{arch}")
    return flags


def compile_command(kind: str, source: Path, output: Path, source_hash: str) -> list[str]:
    """The compiler's command line. No -march=native and no fast maths: a wheel serves other machines too."""
    common = ["-O3", "-std=c++17", "-shared", f"-I{source.parent}", "-o", str(output), str(source)]
    define = f'-DEXLM_SOURCE_HASH="{source_hash}"'
    if kind == "cpu":
        vectorise = [
            "-fno-math-errno",
            "-fno-trapping-math",
        ]  # change no result; errno and traps would bar vectors
        return [*find_compiler(), "-fPIC", "-fvisibility=hidden", "-pthread", *vectorise, define, *common]
    nvcc = find_nvcc()
    host = ["-Xcompiler", "-fPIC,-fvisibility=hidden", "--cudart=static", "--threads=0"]
    if os.environ.get("CXX"):
        host += ["-ccbin", find_compiler()[-1]]
    return [nvcc, *architecture_flags(nvcc), *host, define.replace('"', '\\"'), *common]


def compile_library(kind: str, source: Path, target: Path, source_hash: str) -> None:
    """Compiles beside the target, then moves it there: a process that has the old library open keeps it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    command = compile_command(kind, source, fresh, source_hash)
    print(" ".join(shlex.quote(part) for part in command), flush=True)
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
        self.sources = load_sources()

    def target(self, kind: str) -> Path:
        folder = ROOT if self.editable_mode else Path(self.build_lib)
        return folder / OP_FOLDER / self.sources.LIBRARIES[kind]

    def wanted(self) -> list[str]:
        cuda = find_nvcc() is not None and self.sources.source_path("cuda").exists()
        if switched_on("EXLM_NO_CUDA") or not cuda:
            return ["cpu"]
        if asked := os.environ.get("TORCH_CUDA_ARCH_LIST", "").strip():
            parse_architectures(asked)  # a mistake in it stops the install before anything is compiled
        return ["cpu", "cuda"]

    def run(self):
        wanted, required = self.wanted(), switched_on("EXLM_REQUIRE_OP")
        for kind in self.sources.LIBRARIES:
            target = self.target(kind)
            if kind in wanted:
                try:
                    source = self.sources.source_path(kind)
                    compile_library(kind, source, target, self.sources.source_hash(kind))
                    continue
                except BuildFailure as failure:
                    self.report(kind, failure, required)
            target.unlink(missing_ok=True)  # one built from older sources must not stay

    def report(self, kind: str, failure: BuildFailure, required: bool) -> None:
        if required:
            raise SystemExit(f"error: EXLM_REQUIRE_OP=1, and the {kind} library was not built: {failure}")
        self.warn(
            f"the {kind} library of the DAG loss was not built: {failure}\n"
            "  The install goes on: the plain PyTorch path will serve there, with the same results, slower."
        )

    def get_source_files(self):
        return sorted(str(path.relative_to(ROOT)) for path in self.sources.CSRC.iterdir())

    def get_outputs(self):
        targets = [Path(self.build_lib) / OP_FOLDER / name for name in self.sources.LIBRARIES.values()]
        return [str(target) for target in targets if target.exists()]

    def get_output_mapping(self):
        return {}


class Build(build):
    """Starts from an empty build folder: setuptools would pack what older builds have left there."""

    sub_commands = [*build.sub_commands, ("build_op", None)]

    def run(self):
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
