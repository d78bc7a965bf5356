"""A queue in the place of SLURM's commands, which runs jobs at once.

Its folder has the words of each sbatch in N.job, its states in N.state, one a line.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

QUEUE = "FAKE_QUEUE"  # the environment's name of the folder


def install(folder: Path) -> dict[str, str]:
    """Returns an environment in which a cluster answers."""
    (folder / "bin").mkdir(parents=True)
    for name in ("sbatch", "squeue", "scancel", "srun", "sinfo", "sacctmgr", "scontrol"):
        call = f"exec {sys.executable} {__file__} {name} "
        (folder / "bin" / name).write_text("#!/bin/sh\n" + call + '"$@"\n')
        (folder / "bin" / name).chmod(0o755)
    return {QUEUE: str(folder), "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def run(job: Path) -> None:
    words, state = json.loads(job.read_text()), job.with_suffix(".state").open("a", buffering=1)
    command = next(word for word in words if word.startswith("--wrap=")).removeprefix("--wrap=")
    print("RUNNING", file=state)
    with job.with_suffix(".log").open("ab") as log:
        status = subprocess.call(["bash", "-c", command], stdout=log, stderr=log)
    print("FAILED" if status else "COMPLETED", file=state)


def main(name: str, *words: str) -> None:
    folder = Path(os.environ[QUEUE])
    if name == "sbatch":
        job = folder / f"{len([*folder.glob('*.job')]) + 1}.job"
        job.write_text(json.dumps(words))
        job.with_suffix(".state").write_text("PENDING\n")
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        subprocess.Popen([sys.executable, __file__, "run", str(job)], start_new_session=True, **quiet)
        print(job.stem)
    elif name == "squeue":
        for state in folder.glob("*.state"):
            print(f"{state.stem}|{state.read_text().split()[-1]}")
    elif name == "srun":
        first = next(i for i, word in enumerate(words) if not word.startswith("-"))
        os.execvp(words[first], words[first:])
    elif name == "sinfo":
        print("PARTITION\nnodes*")
    elif name == "sacctmgr":
        print("mine")
    elif name == "run":
        run(Path(words[0]))
    else:
        sys.exit(f"{name}: not in this queue")


if __name__ == "__main__":
    main(*sys.argv[1:])
