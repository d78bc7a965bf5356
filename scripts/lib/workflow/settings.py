"""The settings of the workflow: Snakemake's config, read as options of a command line; and
OUTPUT/settings.json, which records them, so that results of other settings are never mixed."""

import argparse
import shlex
from pathlib import Path

from lib.command_line import Flags, UserError, above_zero, count, named_path, positive, rate, share
from lib.files import CONFIGS, check_same, read_json, sha256
from lib.recipes import FLAGS, GRIDS
from lib.workflow.benchmarks import BENCHMARKS
from lib.workflow.runs import NOT_IN_FLAGS, targets

from fs_plugins.files import write_json

SIZES = {"smoke": 500, "small": 2000, "paper": 5000}  # sentences for the measures of each
# of runs.csv, for ``only``
COLUMNS = {"name": str, "model": str, "k": positive, "p": share, "times": above_zero}
SETTINGS_FILE = "settings.json"
RESULTS = ("*.pt", "train.json", "result.json")  # one of which a folder with results has
FIXED = ("size", "tokens_per_sample", "updates", "sentences", "flags", "finetune_flags", "max_epoch")
HASHED = ("data", "smiles", "models", "init_from")
MOST_HASHED = 1 << 26  # bytes of a file


def selection(text: str) -> tuple[str, str | int | float]:
    """Type of ``only``: a column of runs.csv, or of table 3's grid, and its value."""
    name, _, value = text.partition("=")
    if name not in (*COLUMNS, *FLAGS):
        raise argparse.ArgumentTypeError(f"'{text}': give one of {', '.join((*COLUMNS, *FLAGS))}, as in k=4")
    return name, COLUMNS[name](value) if name in COLUMNS else value


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        raise UserError(message.removeprefix("argument --"))


def parser() -> argparse.ArgumentParser:
    """Returns a parser with each setting as an option; docs/experiments.md describes them."""
    made = _Parser(allow_abbrev=False, add_help=False)
    add = made.add_argument
    for name in ("data", "smiles"):
        add(f"--{name}")
    for benchmark in BENCHMARKS.values():
        benchmark.add_settings(add)
    for name in ("models", "init_from"):
        add(f"--{name}", type=named_path, nargs="+", default=[])
    for name in ("updates", "tokens_per_sample", "max_epoch", "sentences"):
        add(f"--{name}", type=positive)
    for name in ("jobs_per_gpu", "threads"):
        add(f"--{name}", type=positive, default=1)
    for name in ("flags", "finetune_flags"):
        add(f"--{name}", default="")
    add("--output")
    add("--size", choices=SIZES, default="smoke")
    add("--seeds", type=count, nargs="+", default=[1])
    add("--finetune_seeds", type=count, nargs="+", default=[])
    add("--rates", type=rate, nargs="+", default=[])
    add("--grid", choices=GRIDS, default=GRIDS[0])
    add("--only", type=selection, nargs="+", default=[])
    add("--example", default="This is <mask>, and I'm very <mask> to see this.")
    add("--gpus", type=count, default=0)
    return made


def read(config: dict) -> argparse.Namespace:
    """Returns the settings by name; those that are not given have their default, or None. Values joined by
    commas are several. Raises UserError for an unknown setting, or values that do not go together."""
    options, words = parser(), []
    known = vars(options.parse_args([]))
    paths = {action.dest for action in options._actions if action.type in (None, Path)}
    for name, value in config.items():
        if name in paths and isinstance(value, int | float):  # Snakemake makes 20261127 of 2026_11_27
            raise UserError(f"{name}: Snakemake read a number, {value}: write it as a path, {name}=./NAME")
        if isinstance(known.get(name), list) and value is not None:
            pairs = [f"{key}={item}" for key, item in value.items()] if isinstance(value, dict) else value
            several = pairs if isinstance(pairs, list) else str(pairs).split(",")
            words += [f"--{name}", *(str(item).strip() for item in several)]
        elif value is not None:
            words += [f"--{name}={value}"]
    settings = options.parse_args(words)
    for action in options._actions:
        if action.type in (named_path, selection):
            setattr(settings, action.dest, dict(getattr(settings, action.dest)))
    if not settings.output:
        raise UserError("give a folder for the results: --config output=runs/NAME")
    if settings.rates and min(len(settings.seeds), len(settings.rates)) < 2:
        raise UserError("rates: give two or more, and two seeds or more, the first of which chooses a rate")
    if unknown := settings.init_from.keys() - settings.models.keys():
        raise UserError(f"init_from {min(unknown)} is none of models: {', '.join(settings.models)}")
    settings.point = {name: value for name, value in settings.only.items() if name not in COLUMNS}
    settings.point |= {"epochs": str(settings.max_epoch)} if settings.max_epoch else {}  # table 3's grid
    settings.sentences = settings.sentences or SIZES[settings.size]
    settings.targets = targets()
    taken = {"flags": NOT_IN_FLAGS | ({"--lr"} if settings.rates else set())}
    for name, names in {**taken, "finetune_flags": {*FLAGS.values()}}.items():
        if wrong := sorted(names & Flags.of(shlex.split(getattr(settings, name))).keys()):
            raise UserError(f"{name}: {', '.join(wrong)} would apply to runs that differ in it: leave it out")
    return settings


def record(settings: argparse.Namespace, asked: list[str]) -> None:
    """Writes OUTPUT/settings.json, of the targets that were asked for; to be called by the folder's holder.
    Raises UserError if the output holds results of other settings; the message names each difference.

    Snakemake's own record of parameters is in the working directory: it protects no output folder that was
    moved, or that is written to from elsewhere.
    """
    path, values = Path(settings.output, SETTINGS_FILE), fixed(settings)
    there = read_json(path) or {"targets": [], "fixed": {}}
    # otherwise an earlier call failed before any result
    if any(next(path.parent.rglob(name), None) for name in RESULTS):
        old = there["fixed"]
        both = old.keys() & values.keys()
        check_same(path.parent, *({name: made_of[name] for name in both} for made_of in (old, values)))
        values = {**old, **values}
    about = {name: value for name, value in vars(settings).items() if value and name != "targets"}
    for name in ("seeds", "finetune_seeds"):
        about[name] = list(dict.fromkeys([*there.get(name, []), *(getattr(settings, name) or [])]))
    shown = list(dict.fromkeys([*there["targets"], *asked]))
    write_json(path, {**there, **about, "targets": shown, "fixed": values})


def fixed(settings: argparse.Namespace) -> dict[str, object]:
    """Returns what may not differ between results. Data and models that are not given may be added later;
    without ``data``, size smoke has its own."""
    values = {name: getattr(settings, name) for name in FIXED}
    values["rates"] = [*settings.rates, f"chosen by seed {settings.seeds[0]}"] if settings.rates else None
    values["grid"] = [settings.grid, settings.point, f"chosen by seed {(settings.finetune_seeds or [1])[0]}"]
    values |= dict.fromkeys(f"init_from {name}" for name in settings.models)
    if settings.size == "smoke":
        values["data"] = None
    parts = {name: benchmark.parts(settings) for name, benchmark in BENCHMARKS.items()}
    for name in HASHED:
        value = getattr(settings, name)
        parts[name] = value if isinstance(value, dict) else {"": value} if value else {}
    for name, several in parts.items():
        for key, path in several.items():
            files = [file for file in (Path(path), *sorted(Path(path).rglob("*"))) if file.is_file()]
            values[f"{name} {key}".strip()] = sha256(*files, most=MOST_HASHED)
    folders = ("pretrain", "pretrain/smiles") if settings.smiles else ("pretrain",)
    sizes = (settings.size, *(("base", "large") if settings.size == "paper" else ()))
    for path in (CONFIGS / folder / f"{size}.flags" for folder in folders for size in sizes):
        if path.is_file():
            values[f"configs/{path.relative_to(CONFIGS)}"] = str(Flags.read(path))
    return values
