"""Do the tests notice faults? Applies each of mutations.toml to a copy of the clone and runs its tests there.

    python -m tests.tools.mutate                    all (half an hour)
    python -m tests.tools.mutate rotation 'op: no'  those whose names begin so

Exit status 1 if a mutation is not caught, 2 if one no longer applies: then bring mutations.toml up to date.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutations.toml")


def copy_to(folder: Path) -> None:
    """The files of the clone as they stand, but not what lies beside it, and the op."""
    names = subprocess.check_output(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT)
    files = [name for name in names.decode().split("\0") if name and (ROOT / name).is_file()]
    files += [str(path.relative_to(ROOT)) for path in (ROOT / "fs_plugins/custom_ops").glob("*.so")]
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())


def mutated(mutation: dict, clone: Path) -> str:
    """The file with the fault.

    Raises:
        ValueError: if the line is not there, or more than once.
    """
    text = (clone / mutation["file"]).read_text(encoding="utf-8")
    if (count := text.count(mutation["old"])) != 1:
        raise ValueError(f"{mutation['old']!r} occurs {count} times in {mutation['file']}")
    return text.replace(mutation["old"], mutation["new"])


def caught_by(mutation: dict, clone: Path) -> str | None:
    """The first test that fails with the fault, or None."""
    path = clone / mutation["file"]
    original = path.read_text(encoding="utf-8")
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "EXLM_NO_CUDA": "1",
        "PYTHONPATH": f"{clone}{os.pathsep}{clone / 'scripts'}",
    }

    def run(*command: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, *command], cwd=clone, env=environment, capture_output=True, text=True
        )

    def build() -> None:
        if path.suffix in (".h", ".cpp"):
            built = run("setup.py", "-q", "build_op", "--build-lib", ".")
            assert built.returncode == 0, built.stdout + built.stderr

    try:
        path.write_text(mutated(mutation, clone), encoding="utf-8")
        build()
        done = run("-m", "pytest", "-q", "-x", "-W", "ignore", "-p", "no:cacheprovider", *mutation["tests"])
    finally:
        path.write_text(original, encoding="utf-8")
        build()
    if done.returncode < 0 or done.returncode == 139:
        return "a crash of Python"
    if done.returncode not in (0, 1):
        raise SystemExit(f"error: {mutation['name']}: the tests did not run:\n{done.stdout}{done.stderr}")
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else None


def main(names: list[str]) -> int:
    mutations = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutation"]
    chosen = [m for m in mutations if not names or m["name"].startswith(tuple(names))]
    status, missed = 0, []
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "exlm")
        copy_to(clone)
        for mutation in chosen:
            try:
                mutated(mutation, clone)
            except ValueError as error:
                print(f"{mutation['name']}\n    error: no longer applies: {error}", flush=True)
                status = 2
                continue
            test = caught_by(mutation, clone)
            missed += [] if test else [mutation["name"]]
            print(
                f"{mutation['name']}\n    {test or 'NOT CAUGHT by ' + ' '.join(mutation['tests'])}",
                flush=True,
            )
    print(f"{len(chosen)} mutations, {len(missed)} not caught")
    return status or bool(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
