"""Do the tests notice faults? Applies each of mutations.toml to a copy of the clone and runs its tests there.

    python -m tests.manual.mutate                    all (half an hour)
    python -m tests.manual.mutate rotation 'op: no'  those whose names begin so

Exit status 1 if a mutation is not caught.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutations.toml")


class Mutation(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    tests: list[str]


def listed() -> list[Mutation]:
    """All of them; tests/test_layout.py checks that they are of today's source."""
    areas = tomllib.loads(LIST.read_text(encoding="utf-8"))
    tests = areas.pop("tests")
    return [
        Mutation(f"{area}: {name}", file, *change, tests[area])
        for area, files in areas.items()
        for file, changes in files.items()
        for name, change in changes.items()
    ]


def copy_to(folder: Path) -> None:
    """The files of the clone as they stand, but not what lies beside it, and the op."""
    names = subprocess.check_output(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT)
    files = [name for name in names.decode().split("\0") if name and (ROOT / name).is_file()]
    files += [str(path.relative_to(ROOT)) for path in (ROOT / "fs_plugins/custom_ops").glob("*.so")]
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())


def caught_by(mutation: Mutation, clone: Path) -> str | None:
    """The first test that fails with the fault, or None."""
    path = clone / mutation.file
    original = path.read_text(encoding="utf-8")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "EXLM_NO_CUDA": "1"}
    environment["PYTHONPATH"] = f"{clone}{os.pathsep}{clone / 'scripts'}"

    def run(*command: str) -> subprocess.CompletedProcess:
        command = (sys.executable, *command)
        return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)

    def build() -> None:
        if path.suffix in (".h", ".cpp"):
            built = run("setup.py", "-q", "build_op", "--build-lib", ".")
            assert built.returncode == 0, built.stdout + built.stderr

    try:
        path.write_text(original.replace(mutation.old, mutation.new), encoding="utf-8")
        build()
        done = run("-m", "pytest", "-q", "-x", "-W", "ignore", "-p", "no:cacheprovider", *mutation.tests)
    finally:
        path.write_text(original, encoding="utf-8")
        build()
    if done.returncode < 0 or done.returncode == 139:
        return "a crash of Python"
    if done.returncode not in (0, 1):
        raise SystemExit(f"error: {mutation.name}: the tests did not run:\n{done.stdout}{done.stderr}")
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else None


def main(names: list[str]) -> int:
    chosen = [mutation for mutation in listed() if not names or mutation.name.startswith(tuple(names))]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "exlm")
        copy_to(clone)
        for mutation in chosen:
            test = caught_by(mutation, clone)
            missed += test is None
            missing = f"NOT CAUGHT by {' '.join(mutation.tests)}"
            print(mutation.name, test or missing, sep="\n    ", flush=True)
    print(f"{len(chosen)} mutations, {missed} not caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
