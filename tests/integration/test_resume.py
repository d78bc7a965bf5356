"""Runs that are stopped and resumed: the same numbers as in one go."""

import json
import re
import signal

import pytest
import torch

from tests.integration import commands
from tests.integration.commands import load_checkpoint, pretraining, train


@pytest.mark.slow
def test_killed_in_mid_epoch_and_resumed_is_uninterrupted(corpus, tmp_path):
    """To the last bit; with dropout, --update-freq 2, and on into the next epoch, with its other masks."""
    flags = ["--batch-size", 4, "--update-freq", 2, "--dropout", 0.2, "--save-interval-updates", 4]
    whole = train(*pretraining(corpus, tmp_path / "whole", *flags, "--max-update", 30))
    per_epoch = sum(stats["epoch"] == 1 for stats in whole.updates)
    assert 12 < per_epoch < 30

    killed = commands.start(
        "train", *pretraining(corpus, tmp_path / "killed", *flags, "--max-update", 10_000)
    )
    last = 0
    for line in killed.stdout:
        if '"num_updates"' in line and "train_inner" in line:
            last = int(json.loads(line.split(" | ")[-1])["num_updates"])
        if last >= 6:
            killed.send_signal(signal.SIGKILL)
            break
    killed.stdout.read()
    assert killed.wait(100) == -signal.SIGKILL

    folder = tmp_path / "killed"
    saved = load_checkpoint(folder / "checkpoint_last.pt")["optimizer_history"][-1]["num_updates"]
    assert 4 <= saved < per_epoch and saved % 4 == 0

    resumed = train(*pretraining(corpus, folder, *flags, "--max-update", 30))
    assert resumed.losses() == {update: loss for update, loss in whole.losses().items() if update > saved}
    assert resumed.values("gnorm") == whole.values("gnorm")[saved:]
    paths = [tmp_path / name / "checkpoint_last.pt" for name in ("whole", "killed")]
    commands.assert_same_model(*paths)
    moments = [load_checkpoint(path)["last_optimizer_state"]["state"] for path in paths]
    assert moments[0].keys() == moments[1].keys() and len(moments[0]) > 10
    for key, state in moments[0].items():
        assert all(
            torch.equal(value, moments[1][key][name]) for name, value in state.items() if name != "step"
        )


def validate(data, path) -> commands.Run:
    """fairseq-validate, with few more flags than it needs."""
    flags = ["--user-dir", commands.PLUGIN, "--task", "masked_lm", "--batch-size", 8, *commands.ON_CPU]
    return commands.call("validate", data, "--path", path, *flags)


@pytest.mark.parametrize(
    ("arch", "criterion"), [("exlm_tiny", "nat_dag_loss_mlm"), ("mlm_tiny", "masked_lm")]
)
def test_fairseq_validate_repeats_the_validation(arch, criterion, corpus, tmp_path):
    flags = pretraining(corpus, tmp_path, arch=arch, criterion=criterion)
    flags.remove("--disable-validation")
    run = train(*flags)
    validated = validate(corpus, tmp_path / "checkpoint_last.pt")
    assert len(run.stats["valid"]) == len(validated.stats["valid"]) == 1
    assert validated.stats["valid"][0]["valid_loss"] == run.stats["valid"][0]["valid_loss"]
    blocks = re.search(r"loaded (\d+) blocks from: .*valid", validated.text)[1]
    assert validated.values("bsz", "valid") == [int(blocks)]  # all of them, though they do not fill batches


def test_a_checkpoint_trained_with_fp16_is_validated_on_a_cpu(corpus, pretrained, tmp_path):
    state = torch.load(pretrained)
    for flags in (vars(state["cfg"]["model"]), state["cfg"]["common"]):
        flags.update(fp16=True, cpu=False)
    torch.save(state, tmp_path / "gpu.pt")
    runs = [validate(corpus, path) for path in (pretrained, tmp_path / "gpu.pt")]
    assert runs[0].values("loss", "valid") == runs[1].values("loss", "valid") != []


def test_from_pretrained_gives_features(corpus, pretrained):
    from fs_plugins.models.exlm import ExLMModel

    hub = ExLMModel.from_pretrained(str(pretrained.parent), pretrained.name, str(corpus), bpe=None)
    hub.eval()
    encode = hub.task.source_dictionary.encode_line
    tokens = encode("<s> w1 w2 w3 </s>", append_eos=False, add_if_not_exist=False).long()
    features = hub.extract_features(tokens)
    assert features.shape == (1, 5, 32)  # a row a token, though <s> and </s> are four states each
    assert features.isfinite().all()
    (state,) = {key for key in hub.model.state_dict() if key.endswith("link_positional.weight")}
    assert torch.equal(hub.model.state_dict()[state], load_checkpoint(pretrained)["model"][state])
