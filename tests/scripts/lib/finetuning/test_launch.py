"""Fine-tuning on GLUE, SQuAD and molecules: schedules, positions, where it starts, what is refused."""

import os
import shutil
import subprocess

import pytest
from lib import files
from lib.recipes import files_of

from fs_plugins.finetuning.squad.data import Answer
from tests.support import builders, pages, prepared, squad


@pytest.fixture
def ask(toy_inputs):
    """ask(KIND, WORD...) -> the training of a script with the toy inputs, or other data."""

    def make(kind, *words, data=None):
        first, start, about = prepared.FINETUNINGS[kind]
        first = (*first, toy_inputs / f"checkpoints/{start}.pt", data or toy_inputs / about, "save")
        return pages.resolve(f"finetune_{kind}", *first, *words)

    return make


def test_flags_that_leave_no_best_epoch(ask):
    for words in (("--no-save",), ("--save-interval", 3), ("--validate-interval", 3, "--max-epoch", 2)):
        with pytest.raises(ValueError, match=words[0]):
            ask("moleculenet", *words)


def test_a_start_that_was_fine_tuned_and_a_batch_that_cannot_be_split(ask, toy_inputs):
    """The scores of the one would pass for its pre-training's; of the other batches would be smaller."""
    with pytest.raises(ValueError, match="was fine-tuned"):
        pages.resolve("finetune_squad", toy_inputs / "checkpoints/mnli.pt", toy_inputs / "squad", "s")
    with pytest.raises(ValueError, match="no multiple of 1 GPU x --update-freq 2"):
        ask("glue", "--batch-size", 9, "--update-freq", 2)


def test_another_worker_ends_where_the_first_finds_a_finished_run(tmp_path):
    """It would wait for the first, which is gone."""
    plan = f"save={tmp_path} data= note= print= first= record= drop=() flags=() evaluation=()"
    stub = f'#!/bin/sh\n[ "$2" = fairseq_cli.train ] && echo trains || echo "{plan}"\n'
    python = builders.write_file(tmp_path / "python", stub)
    python.chmod(0o755)
    command, environment = ["bash", files.ROOT / "scripts/finetune_squad.sh"], {"EXLM_PYTHON": str(python)}
    for said in ("trains\n", ""):
        assert subprocess.check_output(command, text=True, env=os.environ | environment) == said
        (tmp_path / "result.json").touch()


def test_from_scratch_is_another_run(ask):
    pretrained, scratch = ask("moleculenet"), ask("moleculenet", "--scratch")
    assert pretrained.flags.pop_all("--finetune-from-model") and scratch.flags == pretrained.flags
    assert scratch.settings != pretrained.settings
    read = {path.name for path in pretrained.inputs["data"]}
    assert {"molecules.json", "train.bin", "train.idx", "train.labels.npy"} <= read


def test_windows_and_their_updates(save_checkpoint, tmp_path):
    """Of two questions, one with an unknown answer, and a pre-training on 24 tokens."""
    symbols, data = builders.dictionary(60), tmp_path / "squad"
    builders.write_dictionary(data, symbols.symbols[symbols.nspecial :])
    asked = [("known", "w50 w51", 0, [(3, 4)]), ("odd", "w52 w53", 0, [Answer("elsewhere", -1)])]
    squad.save(data, squad.split_of([squad.sentence(30)], asked), "train", "valid")
    task = {"_name": "masked_lm", "tokens_per_sample": 24}
    model = save_checkpoint("mlm_tiny", task=task, symbols=symbols, data=data)
    sizes = ("--batch-size", 2, "--max-epoch", 5, "--warmup-ratio", 0.5, "--max-question-tokens", 8)
    names = ("--window-tokens", "--doc-stride", "--total-num-update", "--warmup-updates")

    def counted(*words):
        found = pages.resolve("finetune_squad", model, data, "save", *sizes, "--max-answer-tokens", 3, *words)
        return [found.flags.whole(name) for name in names]

    # 24 - 2 - 4 = 18 words a window, from 0, 6 and 12: 3 windows, 2 updates of 2
    assert counted() == [24, 6, 2 * 5, 5]
    assert counted("--window-tokens", 96) == [96, 24, 1 * 5, 2]
    assert counted("--window-tokens", 96, "--doc-stride", 32) == [96, 32, 1 * 5, 2]
    defaults = pages.resolve("finetune_squad", model, data, "save").flags
    limits = [defaults.whole(name) for name in ("--max-question-tokens", "--max-answer-tokens")]
    assert limits == [12, 6], "half and a quarter of 24"


def test_data_of_another_dictionary(ask, toy_inputs, tmp_path):
    copied = shutil.copytree(toy_inputs / "moleculenet/bbbp", tmp_path / "copied")
    lines = (copied / "dict.txt").read_text().splitlines(keepends=True)
    (copied / "dict.txt").write_text("".join(lines[::-1]))
    with pytest.raises(ValueError, match="different vocabularies"):
        ask("moleculenet", data=copied)


def test_what_may_change_when_a_run_is_resumed(ask, toy_inputs, tmp_path):
    def made(*words, **given):
        found = ask("glue", *words, **given)
        return found.all_settings(), {name: files.sha256(*read) for name, read in found.inputs.items()}

    data = shutil.copytree(toy_inputs / "glue", tmp_path / "glue", ignore=shutil.ignore_patterns("[!R]*-bin"))
    settings, inputs = made()
    builders.write_file(data / "RTE-bin" / ".git" / "HEAD", "")
    assert made(data=data) == made("--log-interval", 5) == made("--drop-checkpoints") == (settings, inputs)
    for other, name in (("--seed 2", "seed"), ("--lr 1e-3", "point"), ("--max-update 10", "--max-update")):
        found, _ = made(*other.split())
        assert found[name] != settings.get(name)
    (data / "RTE-bin" / "more").write_text("other data")
    assert made(data=data)[1] != inputs
    shards = [builders.write_file(tmp_path / f"model-{i}.safetensors", "") for i in (1, 2)]
    assert files_of(tmp_path) == [tmp_path / "config.json", *shards]
