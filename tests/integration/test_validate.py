"""fairseq-validate: the numbers of the validation during the training."""

import re

import pytest
import torch

from tests.integration import commands
from tests.integration.commands import pretraining, train


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
