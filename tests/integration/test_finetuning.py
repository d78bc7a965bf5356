"""Fine-tuning of a pre-trained ExLM with fairseq's ``sentence_prediction``."""

import random

import pytest

from tests.integration import commands
from tests.integration.commands import train
from tests.integration.conftest import binarise, sentence


@pytest.fixture(scope="module")
def classification(corpus, tmp_path_factory):
    """Sentences in ``input0``; their label is which half of the vocabulary their words are of."""
    folder = tmp_path_factory.mktemp("classification")
    rng = random.Random(2)
    inputs, labels = {}, {}
    for split, size in (("train", 160), ("valid", 40)):
        topics = [rng.randrange(15) for _ in range(size)]
        inputs[split] = "".join(sentence(rng, topic) + "\n" for topic in topics)
        labels[split] = "".join(("high\n" if topic > 7 else "low\n") for topic in topics)
    label_dictionary = folder / "labels.txt"
    label_dictionary.write_text("low 1\nhigh 1\n")
    binarise(folder / "inputs", inputs, "--srcdict", corpus / "dict.txt").rename(folder / "input0")
    binarise(folder / "labels", labels, "--srcdict", label_dictionary).rename(folder / "label")
    return folder


def finetuning(data, save_dir, checkpoint, *flags) -> list:
    """The flags of a small fine-tuning run, as one would go on from a checkpoint of pre-training."""
    return [
        *(data, "--user-dir", commands.PLUGIN, "--save-dir", save_dir, "--task", "sentence_prediction"),
        *("--criterion", "sentence_prediction", "--classification-head-name", "side", "--num-classes", 2),
        *("--arch", "exlm_tiny", "--init-token", 0, "--separator-token", 2, "--max-positions", 2048),
        *("--restore-file", checkpoint, "--reset-optimizer", "--reset-dataloader", "--reset-meters"),
        *("--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"),
        *("--batch-size", 16, "--no-epoch-checkpoints", "--max-epoch", 4),
        *commands.OPTIMIZER,
        *commands.QUIET,
        *commands.TINY_MODEL,
        *flags,
    ]


def test_trains_saves_and_resumes(classification, pretrained, tmp_path):
    run = train(*finetuning(classification, tmp_path, pretrained, "--lr", 2e-3))
    assert run.values("loss")[0] == pytest.approx(1, abs=0.3)  # one bit: two classes
    accuracies = run.values("accuracy", "valid")
    assert len(accuracies) == 4 and accuracies[-1] >= 90

    model = commands.load_checkpoint(tmp_path / "checkpoint_best.pt")["model"]
    assert model["classification_heads.side.out_proj.weight"].shape == (2, 32)
    assert set(commands.load_checkpoint(pretrained)["model"]) < set(model)

    last = tmp_path / "checkpoint_last.pt"
    flags = finetuning(classification, tmp_path, last, "--lr", 2e-3, "--max-epoch", 5)
    flags = [flag for flag in flags if not str(flag).startswith("--reset")]
    resumed = train(*flags)
    assert [stats["epoch"] for stats in resumed.stats["valid"]] == [5]
    assert resumed.values("accuracy", "valid")[0] >= 90
