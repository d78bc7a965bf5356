"""The settings of the workflow: Snakemake's config, read as options of a command line; and
OUTPUT/settings.json, which records them; results of other settings, data or files of configs/ are refused."""

import argparse
import shlex
from pathlib import Path

from lib.command_line import Flags, UserError, count, named_path, positive
from lib.files import CONFIGS, check_same, files_below, read_json, sha256
from lib.glue import TASKS
from lib.recipes import FLAGS, GRIDS
from lib.run.launch import fixed as fixed_flags
from lib.workflow.runs import FOREST, UNTRAINED

from fs_plugins.files import write_json

SIZES = {"smoke": 500, "small": 2000, "paper": 5000}  # sentences for the measures of each
SETTINGS_FILE = "settings.json"
RESULTS = ("*.pt", "train.json", "result.json")  # one of which a folder with results has
FIXED = ("size", "tokens_per_sample", "updates", "sentences", "flags", "finetune_flags", "max_epoch")
MOST_HASHED = 1 << 26  # bytes of a file
# Flags that identify a run, or that have their own setting
TAKEN = "max-update total-num-update mask-prob ext-state-num repeat-times k p updates gpus cpu task criterion"
TAKEN += " arch seed save-dir restore-file user-dir print help"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        raise UserError(message.removeprefix("argument --"))


def parser() -> argparse.ArgumentParser:
    """Returns a parser with each setting as an option; docs/experiments.md describes them."""
    made = _Parser(allow_abbrev=False, add_help=False)
    add = made.add_argument
    add("--output", type=Path)
    add("--size", choices=SIZES, default="smoke")
    for name in ("data", "smiles", "glue", "squad"):
        add(f"--{name}")
    for name in ("moleculenet", "models"):
        add(f"--{name}", type=named_path, nargs="+", default=[])
    for name in ("updates", "tokens_per_sample", "max_epoch", "sentences"):
        add(f"--{name}", type=positive)
    add("--threads", type=positive, default=1)
    for name in ("flags", "finetune_flags"):
        add(f"--{name}", default="")
    add("--seeds", type=count, nargs="+", default=[1])
    add("--finetune_seeds", type=count, nargs="+", default=[])
    add("--tasks", choices=TASKS, nargs="+", default=[])
    add("--grid", choices=GRIDS, default=GRIDS[0])
    add("--example", default="This is <mask>, and I'm very <mask> to see this.")
    add("--gpus", type=count, default=0)
    return made


def read(config: dict) -> argparse.Namespace:
    """Returns the settings by name; those that are not given have their default, or None. Values joined by
    commas are several. Raises UserError for an unknown setting, or values that do not go together."""
    options, words = parser(), []
    known = vars(options.parse_args([]))
    for name, value in config.items():
        if isinstance(known.get(name), list) and value is not None:
            pairs = [f"{key}={item}" for key, item in value.items()] if isinstance(value, dict) else value
            several = pairs if isinstance(pairs, list) else str(pairs).split(",")
            words += [f"--{name}", *(str(item).strip() for item in several)]
        elif value is not None:
            words += [f"--{name}={value}"]
    settings = options.parse_args(words)
    for name in ("moleculenet", "models"):
        setattr(settings, name, dict(getattr(settings, name)))
    if not settings.output:
        raise UserError("give a folder for the results: --config output=runs/NAME")
    if taken := {UNTRAINED, FOREST} & settings.models.keys():
        raise UserError(f"models={min(taken)}: table 1 has its own row of that name, choose another")
    settings.sentences = settings.sentences or SIZES[settings.size]
    taken = {f"--{name}" for name in TAKEN.split()}
    of_grid = {*FLAGS.values()} if settings.glue or settings.squad else set()
    for name, names in {"flags": taken, "finetune_flags": of_grid}.items():
        if wrong := sorted(names & Flags.of(shlex.split(getattr(settings, name))).keys()):
            raise UserError(f"{name}: {', '.join(wrong)} would apply to runs that differ in it: leave it out")
    return settings


def record(settings: argparse.Namespace, asked: list[str]) -> None:
    """Writes OUTPUT/settings.json, of the targets that were asked for; to be called by the folder's holder.
    Raises UserError if the output holds results of other settings; the message names each difference."""
    path, values = settings.output / SETTINGS_FILE, fixed(settings)
    there = read_json(path) or {"targets": [], "fixed": {}}
    # otherwise an earlier call failed before any result
    if any(next(path.parent.rglob(name), None) for name in RESULTS):
        old = there["fixed"]
        both = old.keys() & values.keys()
        check_same(path.parent, *({name: made_of[name] for name in both} for made_of in (old, values)))
        values = {**old, **values}
    about = {name: value for name, value in vars(settings).items() if value and name != "output"}
    for name in ("seeds", "finetune_seeds"):
        about[name] = list(dict.fromkeys([*there.get(name, []), *getattr(settings, name)]))
    shown = list(dict.fromkeys([*there["targets"], *asked]))
    write_json(path, {**there, **about, "targets": shown, "fixed": values})


def fixed(settings: argparse.Namespace) -> dict[str, object]:
    """Returns what may not differ between results. Data and models that are not given may be added later;
    without ``data``, size smoke has its own."""
    values = {name: getattr(settings, name) for name in FIXED}
    values["flags"] = str(fixed_flags(Flags.of(shlex.split(settings.flags))))
    values["grid"] = [settings.grid, f"chosen by seed {(settings.finetune_seeds or [1])[0]}"]
    if settings.size == "smoke":
        values["data"] = None
    paths = {name: getattr(settings, name) for name in ("data", "smiles", "squad")}
    paths |= {f"glue {path.name}": path for path in Path(settings.glue or "none").glob("*-bin")}
    for name in ("moleculenet", "models"):
        paths |= {f"{name} {key}": path for key, path in getattr(settings, name).items()}
    for name, path in ((name, Path(path)) for name, path in paths.items() if path):
        files = [path] if path.is_file() else files_below(path)
        values[name] = sha256(*files, most=MOST_HASHED)
    sizes = (settings.size, *(("base", "large") if settings.size == "paper" else ()))
    for path in (*CONFIGS.rglob("*.flags"), *CONFIGS.rglob("*.grid")):
        if path.stem in sizes or not path.is_relative_to(CONFIGS / "pretrain"):
            values[f"configs/{path.relative_to(CONFIGS)}"] = str(Flags.read(path))
    return values
