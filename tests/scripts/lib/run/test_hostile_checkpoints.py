"""A checkpoint of a stranger: whatever its settings are, no script starts a process, writes outside of its
folder, builds a task or a criterion that is not known, or gives fairseq-train a flag more."""

import argparse
import copy
import dataclasses
import itertools
import json
import math
import os
import sys
import time
from pathlib import Path

import evaluate
import explore
import export_huggingface
import molecules
import pytest
import torch
from fairseq import criterions, tasks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lib.command_line import Flags
from lib.run.launch import Training
from omegaconf import OmegaConf

from fs_plugins.checkpoint_settings import CRITERIA, TASK_DATACLASS_REGISTRY, TASKS, read_settings
from fs_plugins.huggingface.restore import restore
from fs_plugins.measures.__main__ import main as measure
from fs_plugins.models.flags import EXLM_FLAGS
from tests.support import pages

PROCESS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty.spawn")
CHANGES = ("mkdir", "rename", "remove", "rmdir", "link", "symlink", "chmod", "truncate")
TEMPLATE = ["fairseq-train", "@data", "--user-dir", "plugin", "--save-dir", "@save", "@flags"]
STRANGE = ["--criterion=ctc", "--wer-args=x", "1 --user-dir=/tmp/x", "-1", "--", "${", "../../x", "\0"]
STRANGE += ["${oc.env:HOME}", "__import__('os').system('touch PWNED')", "ctc", "translation", "roberta_base"]
STRANGE += ["nan", "???", "", -3, 0, 1, 3, 10**30, 0.5, -1.0, math.nan, math.inf, True, False, [], "@flags"]
STRANGE += [["--cpu"], {}, {"_name": "ctc"}, {"a": {"b": ["${oc.env:HOME}"]}}, [[[[[[[[[[[["x"]]]]]]]]]]]]]
VALUES = st.sampled_from(STRANGE) | st.text(max_size=8) | st.integers(-5, 5)
VALUES |= st.floats(allow_subnormal=False)
NEW = [("criterion", "wer_args"), ("common", "user_dir"), ("model", "criterion"), ("task", "user_dir")]


@pytest.fixture(scope="module")
def watch():
    """watch(FOLDER) -> a list that gets what is forbidden, as it happens; watch(None) ends it."""
    state = {"folder": None, "seen": []}

    def hook(event, arguments):
        folder = state["folder"]
        if folder is None:
            return
        if event in PROCESS:
            state["seen"].append((event, arguments))
        written = event == "open" and arguments[2] and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (written or event.removeprefix("os.") in CHANGES) and isinstance(
            arguments[0], str | bytes | os.PathLike
        ):
            path = os.fsdecode(arguments[0])
            if event in ("os.remove", "os.rmdir") and arguments[1] >= 0:  # relative to an open folder
                path = os.path.join(os.readlink(f"/proc/self/fd/{arguments[1]}"), path)
            path = os.path.realpath(path)
            if path != os.devnull and not f"{path}/".startswith(f"{folder}/"):
                state["seen"].append((event, path))

    def start(folder):
        state.update(folder=folder and os.path.realpath(folder), seen=[])
        return state["seen"]

    sys.addaudithook(hook)  # stays for good, and does nothing once it has ended
    yield start
    start(None)


@pytest.fixture
def scripts(toy_inputs, tmp_path):
    """Name -> (a checkpoint, what is called with one and a folder)."""
    (tmp_path / "molecules.txt").write_text("CCO\n")

    def finetune(kind):
        return lambda words: pages.resolve(f"finetune_{kind}", *words)

    smiles = "exlm-smiles"
    calls = {
        "glue": ("exlm", finetune("glue"), "RTE {path} {toys}/glue {save} --cpu"),
        "squad": ("exlm", finetune("squad"), "{path} {toys}/squad-short {save} --cpu"),
        "moleculenet": (smiles, finetune("moleculenet"), "bbbp {path} {toys}/moleculenet/bbbp {save} --cpu"),
        "evaluate": ("mnli", evaluate.main, "{path} {toys}/glue/MNLI-bin --output {save} {cpu}"),
        "explore": (smiles, explore.main, "{path} C<mask>O --output {save} --samples 0 --bpe smiles {cpu}"),
        "export": (smiles, export_huggingface.main, "{path} {save}/e --bpe smiles"),
        "molecules": (smiles, molecules.main, "embed {path} {molecules} --output {save}/e.npy {cpu}"),
        "measures": (smiles, measure, "probe {path} --data {text} --max-sentences 2 --output {save}/m {cpu}"),
    }

    def bound(main, words):
        places = {"toys": toy_inputs, "molecules": tmp_path / "molecules.txt", "cpu": "--device cpu"}
        words = words.replace("{text}", "{toys}/molecules")
        return lambda path, save: main(words.format(path=path, save=save, **places).split())

    folder = toy_inputs / "checkpoints"
    return {name: (folder / f"{m}.pt", bound(main, words)) for name, (m, main, words) in calls.items()}


def attempt(call, path: Path, save: Path):
    """What the call returns, or the user's error; others are raised."""
    try:
        return call(path, save)
    except (ValueError, OSError, RuntimeError, SystemExit) as error:
        return error


def flags_of(outcome) -> dict:
    return outcome.fill_training(TEMPLATE)[1]


def replaced(state: dict, group: str, name: str, value) -> dict:
    """The content of a file with another value of a setting."""
    groups = copy.deepcopy(state["cfg"])
    part = groups.get(group) or groups.setdefault(group, {})
    (vars(part) if isinstance(part, argparse.Namespace) else part)[name] = value
    return {**state, "cfg": groups}


def test_no_setting_reaches_further_than_its_flag(scripts, watch, tmp_path, monkeypatch):
    built = []  # names of the tasks and criteria that are

    def recorded(original):
        return lambda cfg, *args, **more: built.append(cfg._name) or original(cfg, *args, **more)

    for module, name in ((tasks, "setup_task"), (criterions, "build_criterion")):
        monkeypatch.setattr(module, name, recorded(getattr(module, name)))
    options = {flag.option for flag in EXLM_FLAGS} | {"--repeat-times", "--window-tokens"}
    files, counter = {}, itertools.count()
    for kind, (path, call) in scripts.items():
        state = torch.load(path, weights_only=True)
        (tmp_path / kind).mkdir()
        outcome = attempt(call, path, tmp_path / kind)  # imports what is imported late
        assert not isinstance(outcome, BaseException), (kind, outcome)
        files[kind] = state, flags_of(outcome) if isinstance(outcome, Training) else None
    assert built == ["glue"]  # of the evaluation
    names = [("model", name) for name in ("_name", "arch", *(flag.name for flag in EXLM_FLAGS))]
    names += [(group, name) for group in ("task", "criterion") for name in settings_of(state, group)]

    @settings(max_examples=24, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(sorted(scripts)), st.sampled_from(names + NEW), VALUES)
    def check(kind, place, value):
        state, flags = files[kind]
        path = tmp_path / f"{next(counter)}.pt"
        torch.save(replaced(state, *place, value), path)
        save = path.with_suffix("")
        save.mkdir()
        seen = watch(save)
        outcome = attempt(scripts[kind][1], path, save)
        watch(None)
        assert not seen and set(built) <= {*TASKS, *CRITERIA}
        if isinstance(outcome, Training):
            given = flags_of(outcome)
            assert Flags.of(given.words()) == given  # as fairseq-train will read them
            assert given.keys() <= flags.keys() | options
            assert given["--user-dir"] == ("plugin",) and given["--save-dir"][0].startswith(str(save))

    check()


def test_sizes_are_those_of_the_weights(scripts, tmp_path, capsys):
    """No model is built of what the file does not hold."""
    path, call = scripts["export"]
    state, held = torch.load(path, weights_only=True), {"molecule_property": {"symbols": ["C"]}}
    sizes = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "max_positions", "ext_state_num")
    files = {f"--{name.replace('_', '-')} is": replaced(state, "model", name, 2**20) for name in sizes}
    weight, other = next(iter(state["model"].items()))[0], torch.zeros(3)
    for key, values in {
        "model": (3, {"a": 3}, {7: other}, {weight: torch.zeros(2, 2).to_sparse()}),
        "optimizer_history": ("abc", [3], [{"num_updates": "<b>"}]),
        "extra_state": ([3], {"val_loss": "1"}, {"val_loss": other}),
        "task_state": ([1], "x"),
    }.items():
        files |= {f"its {key!r} is{' ' * i}": {**state, key: value} for i, value in enumerate(values, 1)}
    for what, group in (("a checkpoint of --arch", "model"), ("of --task", "task")):
        files[f"it is {what} tensor("] = replaced(state, group, "_name", torch.zeros(2))
    files["it has no flags"] = {**state, "cfg": [1]}
    files["the properties are not"] = {**state, "task_state": held}
    for named, content in files.items():
        torch.save(content, tmp_path / "a.pt")
        start = time.monotonic()
        assert call(tmp_path / "a.pt", tmp_path) == 2 and time.monotonic() - start < 10
        assert f"a.pt is refused: {named.rstrip()}" in capsys.readouterr().err
    changed = {**state, "model": {**state["model"], "encoder.lm_head.bias": other}}
    for content in (changed, replaced(state, "model", "encoder_layers", None)):
        torch.save(content, tmp_path / "a.pt")
        assert call(tmp_path / "a.pt", tmp_path) == 2
        assert "weights do not fit" in (said := capsys.readouterr().err) and len(said) < 800
    assert call(path, tmp_path) == 0
    config = tmp_path / "e" / "config.json"
    content = json.loads(config.read_text())
    for name in ("num_hidden_layers", "hidden_size", "intermediate_size", "max_position_embeddings"):
        config.write_text(json.dumps({**content, name: 2**20}))
        with pytest.raises(ValueError, match="is 1,048,576, but its weights have"):
            restore(config.parent)


def test_lists_in_the_settings_of_a_task(monkeypatch):
    plain = [("names", list[str], dataclasses.field(default_factory=list))]
    monkeypatch.setitem(TASK_DATACLASS_REGISTRY, "glue", dataclasses.make_dataclass("Config", plain))
    groups = {"model": {"_name": "mlm_tiny"}, "criterion": {"_name": "masked_lm"}}
    state = {"cfg": {**groups, "task": {"_name": "glue", "names": ["a", "b"]}}}
    assert read_settings(state).task.names == ["a", "b"]
    for value in ("a", [{"a": 1}], [torch.zeros(2)]):
        state["cfg"]["task"]["names"] = value
        with pytest.raises(ValueError, match="--names"):
            read_settings(state)


def settings_of(state: dict, group: str) -> list[str]:
    part = state["cfg"][group]
    return sorted(vars(part) if isinstance(part, argparse.Namespace) else part)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["model", "task", "criterion", "optimization"]),
    st.text(max_size=5),
    VALUES,
    st.booleans(),
)
def test_settings_are_data(group, text, value, old):
    """Of any file, also of older fairseq: of the types of their flags, or refused."""
    model = {"_name": "exlm_tiny", "arch": "exlm_tiny", "encoder_layers": 2}
    groups = {
        "model": model,
        "task": {"_name": "masked_lm", "mask_prob": 0.15},
        "criterion": {"_name": "masked_lm"},
    }
    name = next(iter([*groups.get(group, {})][1:]), "lr") if len(text) % 2 else text or "_name"
    groups.setdefault(group, {})[name] = value
    flat = {**groups["task"], **model, "task": "masked_lm", "criterion": "masked_lm", name: value}
    state = {"args": argparse.Namespace(**flat)} if old else {"cfg": groups}
    try:
        cfg = read_settings(state)
    except ValueError:
        return
    assert cfg.task._name in TASKS and cfg.criterion._name in CRITERIA
    assert vars(cfg.model).keys() <= {"_name", "arch", *(flag.name for flag in EXLM_FLAGS)}
    assert type(cfg.model.encoder_layers) is int
    assert "${" not in str(OmegaConf.to_container(cfg, resolve=False))
