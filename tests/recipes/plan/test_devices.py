"""GPUs and processes of a training."""

import pytest
from recipes.command_line import RecipeError
from recipes.plan.devices import Devices

CLUSTER = {"RANK": "13", "WORLD_SIZE": "16", "LOCAL_RANK": "5", "MASTER_ADDR": "node1", "MASTER_PORT": "2950"}


@pytest.mark.parametrize(
    ("visible", "gpus"), [("", 0), ("-1", 0), ("0,1", 2), ("0,-1,1", 1), ("GPU-8932f937", 1)]
)
def test_gpus_are_those_that_cuda_sees(visible, gpus):
    found = Devices.find(None, {"CUDA_VISIBLE_DEVICES": visible})
    assert (found.gpus, found.workers) == (gpus, max(1, gpus))
    assert ("--fp16" in found.flags, "--cpu" in found.flags) == (gpus > 0, gpus == 0)


def test_gpus_that_nvidia_smi_lists(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho GPU-a\necho GPU-b\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert Devices.find(None, {}).gpus == 2
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert Devices.find(None, {}).gpus == 0


def test_one_of_many_processes():
    flags = Devices.find(8, CLUSTER).flags
    assert flags.value("--distributed-init-method") == "tcp://node1:2950"
    assert (flags.value("--distributed-rank"), flags.value("--distributed-world-size")) == ("13", "16")
    assert "--distributed-no-spawn" in flags and flags.value("--device-id") == "5"
    # a scheduler may show each process its own GPU alone
    assert Devices.find(1, CLUSTER).flags.value("--device-id") == "0"
    on_cpus = Devices.find(0, CLUSTER).flags
    assert on_cpus.value("--distributed-backend") == "gloo" and "--device-id" not in on_cpus
    alone = Devices.find(None, {**CLUSTER, "RANK": "0", "WORLD_SIZE": "1", "CUDA_VISIBLE_DEVICES": "0"})
    assert "--distributed-rank" not in alone.flags


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"MASTER_ADDR": ""}, "RANK or WORLD_SIZE is set, but not MASTER_ADDR"),
        ({"RANK": "16"}, "RANK=16: with WORLD_SIZE=16 it is 0 to 15"),
        ({"MASTER_PORT": "x"}, "MASTER_PORT='x': it has to be a whole number"),
    ],
)
def test_an_environment_that_cannot_be(change, message):
    with pytest.raises(RecipeError, match=message):
        Devices.find(8, CLUSTER | change)


@pytest.mark.parametrize(
    ("gpus", "precision", "flags"),
    [
        (1, None, {"--fp16"}),
        (1, "bf16", {"--bf16"}),
        (1, "fp32", set()),
        (0, None, set()),
        (0, "bf16", {"--bf16"}),
    ],
)
def test_one_precision(gpus, precision, flags):
    """fairseq takes --fp16 and --bf16 together, and trains with neither's rules."""
    found = Devices.find(gpus, {}, precision).flags
    assert {"--fp16", "--bf16"} & found.keys() == flags
    assert ("--fp16-scale-window" in found) == ("--fp16" in flags)
