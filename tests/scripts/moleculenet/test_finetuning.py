"""finetune_moleculenet.sh: table 8's flags, what it refuses; the training itself is in test_finetuned.py."""

import os

import pytest
import torch
from recipes.checkpoints import CheckpointError
from recipes.moleculenet import plan

from tests.scripts.moleculenet.toys import ROOT, finetune


def last(words, flag):
    return words[len(words) - words[::-1].index(flag)]


TABLE_8 = {
    "bace": ("60", "64", "1e-4", 0.06, "0.1", "0.2"),
    "bbbp": ("40", "128", "4e-4", 0.06, "0.1", "0.1"),
    "tox21": ("80", "128", "1e-4", 0.06, "0.1", "0.1"),
    "sider": ("100", "32", "5e-4", 0.4, "0.1", "0"),
    "muv": ("40", "128", "2e-5", 0.2, "0.1", "0.1"),
    "clintox": ("100", "256", "5e-5", 0.1, "0.1", "0.5"),
    "toxcast": ("80", "64", "1e-4", 0.06, "0.1", "0.1"),
}


@pytest.mark.slow
def test_hyper_parameters_are_table_8(pretrained, data):
    dataset = "sider"
    result = finetune(dataset, pretrained[0]["exlm"], data, "save", "--print", "--cpu")
    commands_shown = [line.split() for line in result.stdout.splitlines()]
    assert [last(words, "--seed") for words in commands_shown] == ["1", "2", "3"]
    words = commands_shown[0]
    epochs, batch, lr, ratio, dropout, pooler = TABLE_8[dataset]
    names = ("--max-epoch", "--batch-size", "--lr", "--dropout", "--pooler-dropout")
    assert [last(words, name) for name in names] == [epochs, batch, lr, dropout, pooler]
    updates = int(epochs) * -(-80 // int(batch))
    assert int(last(words, "--total-num-update")) == updates
    assert int(last(words, "--warmup-updates")) == int(ratio * updates)
    assert "--warmup-ratio" not in words
    assert last(words, "--arch") == "exlm_tiny" and last(words, "--encoder-embed-dim") == "32"
    assert last(words, "--max-positions") == "128"
    assert last(words, "--finetune-from-model") == str(pretrained[0]["exlm"])
    scratch = finetune(dataset, pretrained[0]["exlm"], data, "save", "--print", "--cpu", "--scratch")
    assert "--finetune-from-model" not in scratch.stdout and "--encoder-embed-dim 32" in scratch.stdout


@pytest.mark.parametrize(
    ("visible", "flags", "half_precision"),
    [("0", (), True), ("", (), False), (None, (), True), ("0", ("--cpu",), False)],
)
def test_device(visible, flags, half_precision, pretrained, data, tmp_path, monkeypatch):
    one_gpu = tmp_path / "nvidia-smi"
    one_gpu.write_text("#!/bin/sh\necho GPU 0: of a test\n")
    one_gpu.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    result = finetune("bbbp", pretrained[0]["exlm"], data, "save", "--print", "--seeds", "1", *flags)
    words = result.stdout.split()
    assert ("--fp16" in words) == half_precision and ("--cpu" in words) != half_precision


@pytest.mark.parametrize("dataset", sorted(TABLE_8))
def test_flag_files_are_table_8(dataset):
    lines = (ROOT / "configs/finetune/table8" / f"{dataset}.flags").read_text().splitlines()
    flags = dict(line.split() for line in lines if not line.startswith("#"))
    names = ("--max-epoch", "--batch-size", "--lr", "--warmup-ratio", "--dropout", "--pooler-dropout")
    assert tuple(flags[name] for name in names) == tuple(map(str, TABLE_8[dataset]))
    assert set(flags) == set(names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: "esol"}, "unknown dataset 'esol': there are bace bbbp"),
        ({1: "no.pt"}, "the checkpoint no.pt is not there"),
        ({2: "nowhere"}, "nowhere/molecules.json is not there: DATA is a folder made by"),
        ({4: "--seeds", 5: "one"}, "--seeds 'one': give whole numbers"),
        ({4: "--epochs", 5: "0"}, "--epochs '0': give a whole number"),
        ({4: "--seed", 5: "1"}, "--seed is set by this script"),
        ({4: "--epochs"}, "--epochs needs a value"),
        ({4: "--cpu", 5: "--update-freq", 6: "3"}, "--update-freq 3: the batch of 128 is that of an update"),
    ],
)
def test_what_the_script_refuses(pretrained, data, change, message):
    arguments = {0: "bbbp", 1: pretrained[0]["exlm"], 2: data, 3: "save", **change}
    result = finetune(*arguments.values())
    assert result.returncode == 2 and message in result.stderr


def test_the_batch_is_that_of_an_update(pretrained, data):
    def shown(*flags):
        result = finetune("bbbp", pretrained[0]["exlm"], data, "save", "--print", "--cpu", *flags)
        return result.stdout.splitlines()[0].split()

    whole, split = (shown("--batch-size", "24", *flags) for flags in ((), ("--update-freq", "3")))
    assert (last(whole, "--batch-size"), last(split, "--batch-size"), last(split, "--update-freq")) == (
        "24",
        "8",
        "3",
    )
    for flag in ("--total-num-update", "--warmup-updates"):
        assert last(whole, flag) == last(split, flag)
    assert int(last(whole, "--total-num-update")) == 40 * 4  # epochs, updates for 80 molecules


def test_hyper_parameters_of_another_set_are_told(pretrained, data):
    for dataset, warned in (("bbbp", False), ("bace", True)):
        result = finetune(dataset, pretrained[0]["exlm"], data, "save", "--print", "--cpu")
        assert (
            "was prepared as bbbp, and is fine-tuned with the hyper-parameters of bace" in result.stderr
        ) == warned


def test_seeds_with_commas_or_blanks(pretrained, data):
    for seeds in ("4,5", "4 5"):
        result = finetune("bbbp", pretrained[0]["exlm"], data, "save", "--print", "--cpu", "--seeds", seeds)
        assert [last(line.split(), "--seed") for line in result.stdout.splitlines()] == ["4", "5"]


def test_a_fine_tuned_model_is_no_pretrained_one(pretrained, data, tmp_path):
    state = torch.load(pretrained[0]["exlm"], weights_only=False)
    state["cfg"]["task"]["_name"] = "molecule_property"
    torch.save(state, tmp_path / "tuned.pt")
    with pytest.raises(CheckpointError, match=r"was fine-tuned \(--task molecule_property\)"):
        plan.plan(tmp_path / "tuned.pt", data)


def test_another_dictionary_is_refused(pretrained, data, tmp_path):
    other = tmp_path / "data"
    other.mkdir()
    for path in data.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    lines = (other / "dict.txt").read_text().splitlines(keepends=True)
    (other / "dict.txt").write_text("".join(lines[::-1]))
    with pytest.raises(
        CheckpointError, match="line 1: .* where the checkpoint's dictionary .* has .* as long"
    ):
        plan.plan(pretrained[0]["exlm"], other)
    rows, metric, flags, warnings = plan.plan(pretrained[0]["mlm"], data)
    assert (rows, metric, flags[:2], warnings) == (80, "auc", ["--arch", "mlm_tiny"], [])
