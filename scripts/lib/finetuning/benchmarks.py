"""The benchmarks: the subclass of Benchmark in each folder beside this file."""

from importlib import import_module
from pathlib import Path

from lib.finetuning.benchmark import Benchmark

from fs_plugins.finetuning.scored import ScoredTask

for path in sorted(Path(__file__).parent.glob("*/benchmark.py")):
    import_module(f"lib.finetuning.{path.parent.name}.benchmark")
BENCHMARKS: dict[str, Benchmark] = {one.name: one() for one in Benchmark.__subclasses__()}
TABLES = dict.fromkeys(one.table for one in BENCHMARKS.values())


def of_task(task: ScoredTask) -> Benchmark:
    """Returns the benchmark of a task of fairseq; for a task of one's own the base class."""
    return next((one for one in BENCHMARKS.values() if isinstance(task, one.task)), Benchmark())
