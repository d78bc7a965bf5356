"""Pre-training from the command line: the authors' command, the flags that fairseq's users know, mistakes."""

import math
import re
import shlex

import pytest
import torch

from tests.integration import commands
from tests.integration.commands import pretraining, train


def test_the_authors_command_learns(corpus, tmp_path):
    """As README.md has it for a CPU, with a smaller model and batch and 40 updates."""
    page = (commands.ROOT / "README.md").read_text()
    command = re.search("^fairseq-train (.*?)^```", page, re.DOTALL | re.MULTILINE)[1]
    flags = shlex.split(command.replace("\\\n", "").replace("--fp16 ", "--cpu "))[1:]
    flags += ["--user-dir", commands.PLUGIN, "--save-dir", tmp_path, "--tensorboard-logdir", tmp_path / "tsb"]
    flags += ["--tokens-per-sample", 32, "--batch-size", 8, "--update-freq", 1, "--warmup-updates", 10]
    run = train(corpus, *flags, *commands.TINY_MODEL, *commands.QUIET, "--max-update", 40)

    losses = run.values("loss")
    assert len(losses) == 40 and all(map(math.isfinite, losses))
    assert set(run.values("nonfinite")) == {0} and set(run.values("nonfinite", "train")) == {0}
    # Batches differ in length, so compare means.
    assert sum(losses[-10:]) / 10 < sum(losses[:10]) / 10 - 1
    [events] = (tmp_path / "tsb" / "train_inner").glob("events.out.tfevents.*")
    assert b"nonfinite" in events.read_bytes()


@pytest.mark.slow
def test_bf16_trains_on_a_cpu_as_float32_does(corpus, tmp_path):
    flags = ["--dropout", 0, "--attention-dropout", 0]
    plain = train(*pretraining(corpus, tmp_path / "float32", *flags))
    flags = pretraining(corpus, tmp_path / "bf16", *flags, "--bf16")
    run = train(*flags)
    assert run.values("loss") == pytest.approx(plain.values("loss"), abs=0.02)
    assert run.losses() != plain.losses()
    assert list(train(*flags, "--max-update", 10).losses()) == [9, 10]


def validate(data, path) -> commands.Run:
    """fairseq-validate, with few more flags than it needs."""
    flags = ["--user-dir", commands.PLUGIN, "--task", "masked_lm", "--batch-size", 8, *commands.ON_CPU]
    return commands.call("validate", data, "--path", path, *flags)


def test_fairseq_validate_repeats_the_validation(corpus, tmp_path):
    flags = pretraining(corpus, tmp_path)
    flags.remove("--disable-validation")
    run = train(*flags)
    validated = validate(corpus, tmp_path / "checkpoint_last.pt")
    assert len(run.stats["valid"]) == len(validated.stats["valid"]) == 1
    assert validated.stats["valid"][0]["valid_loss"] == run.stats["valid"][0]["valid_loss"]
    blocks = re.search(r"loaded (\d+) blocks from: .*valid", validated.text)[1]
    assert validated.values("bsz", "valid") == [int(blocks)]  # all of them, though they do not fill batches
    state = torch.load(tmp_path / "checkpoint_last.pt")
    for flags in (vars(state["cfg"]["model"]), state["cfg"]["common"]):
        flags.update(fp16=True, cpu=False)  # as if trained on a GPU
    torch.save(state, tmp_path / "gpu.pt")
    again = validate(corpus, tmp_path / "gpu.pt")
    assert again.values("loss", "valid") == validated.values("loss", "valid")
