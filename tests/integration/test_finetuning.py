"""Fine-tuning of a pre-trained ExLM with fairseq's ``sentence_prediction``."""

import random

import pytest
import torch

from tests.integration import commands
from tests.integration.commands import pretraining, says, train
from tests.integration.conftest import VOCABULARY, WORDS, binarise, sentence


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
    before = commands.load_checkpoint(pretrained)["model"]
    assert set(before) < set(model)

    flags = finetuning(
        classification, tmp_path, tmp_path / "checkpoint_last.pt", "--lr", 2e-3, "--max-epoch", 5
    )
    flags = [flag for flag in flags if not str(flag).startswith("--reset")]
    resumed = train(*flags)
    assert [stats["epoch"] for stats in resumed.stats["valid"]] == [5]
    assert resumed.values("accuracy", "valid")[0] >= 90

    validated = commands.call(
        "validate",
        *(classification, "--user-dir", commands.PLUGIN, "--task", "sentence_prediction"),
        *("--criterion", "sentence_prediction", "--classification-head-name", "side", "--num-classes", 2),
        *("--path", tmp_path / "checkpoint_last.pt", "--batch-size", 16, *commands.ON_CPU),
    )
    assert validated.values("loss", "valid") == resumed.values("loss", "valid")


def test_starts_from_what_was_pretrained(classification, pretrained, tmp_path):
    """A learning rate of 0 leaves the encoder as it was."""
    train(*finetuning(classification, tmp_path, pretrained, "--lr", 0, "--max-update", 1))
    before, after = (
        commands.load_checkpoint(p)["model"] for p in (pretrained, tmp_path / "checkpoint_last.pt")
    )
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_another_number_of_states_is_accepted(classification, pretrained, tmp_path):
    run = train(*finetuning(classification, tmp_path, pretrained, "--ext-state-num", 2, "--max-epoch", 3))
    assert run.values("accuracy", "valid")[-1] >= 80


def test_without_init_token(classification, pretrained, tmp_path):
    flags = finetuning(classification, tmp_path, pretrained)
    at = flags.index("--init-token")
    with pytest.raises(ValueError, match="starts with token .*, not with <s> .* pass --init-token 0"):
        train(*flags[:at], *flags[at + 2 :])


def test_another_dictionary_is_refused_with_both_sizes(pretrained, tmp_path):
    dictionary = tmp_path / "other.txt"
    dictionary.write_text("".join(f"w{i} 1\n" for i in range(WORDS - 20)))
    other = binarise(tmp_path / "other", {"train": "w1 w2 w3\n" * 20}, "--srcdict", dictionary)
    with pytest.raises(Exception, match="Cannot load model parameters") as caught:
        train(*pretraining(other, tmp_path / "save", "--restore-file", pretrained))
    assert f"the checkpoint has {VOCABULARY} dictionary entries" in says(caught.value)
    assert f"this model {VOCABULARY - 20}" in says(caught.value)
    assert "dict.txt" in says(caught.value)


def test_other_max_positions_are_refused_with_the_flag(classification, pretrained, tmp_path):
    with pytest.raises(Exception, match="Cannot load model parameters") as caught:
        train(*finetuning(classification, tmp_path, pretrained, "--max-positions", 512))
    assert "pass the --max-positions that the checkpoint was trained with" in says(caught.value)
    assert "2,050" in says(caught.value) and "514" in says(caught.value)


def test_a_mistyped_restore_file_does_not_train_from_scratch(classification, tmp_path):
    missing = tmp_path / "elsewhere/checkpoint_lats.pt"
    with pytest.raises(FileNotFoundError, match="--restore-file .*checkpoint_lats.pt: there is no such file"):
        train(*finetuning(classification, tmp_path / "save", missing))


def test_restore_file_in_the_runs_own_folder_need_not_exist_yet(classification, tmp_path):
    """So that one command starts and resumes a run."""
    flags = finetuning(classification, tmp_path, tmp_path / "checkpoint_last.pt", "--max-update", 2)
    assert len(train(*flags).updates) == 2
