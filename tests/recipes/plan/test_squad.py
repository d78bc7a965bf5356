"""Fine-tuning on SQuAD: windows and updates counted by hand, batches, what is refused."""

import shutil

import pytest
from recipes import folders
from recipes.command_line import RecipeError

from fs_plugins.data import squad_tokens
from fs_plugins.data.squad import Answer
from tests import builders
from tests.data.squad_cases import sentence, split_of

NAMES = ("--window-tokens", "--doc-stride", "--total-num-update", "--warmup-updates")


@pytest.fixture
def counted(flags, saved_checkpoint, tmp_path):
    """Of two questions, one with an unknown answer, and a pre-training on 24 tokens."""
    symbols = builders.dictionary(60)
    data = tmp_path / "squad"
    data.mkdir()
    (data / "dict.txt").write_text("".join(f"w{i} 1\n" for i in range(60)))
    asked = [("known", "w50 w51", 0, [(3, 4)]), ("odd", "w52 w53", 0, [Answer("elsewhere", -1)])]
    split = split_of([sentence(30)], asked)
    split.settings["dictionary"] = squad_tokens.dictionary_hash(data)
    for name in ("train", "valid"):
        squad_tokens.save(split, data, name)
    model = saved_checkpoint("mlm_tiny", rows=len(symbols), task={"data": str(data), "tokens_per_sample": 24})
    sizes = ("--batch-size", 2, "--max-epoch", 5, "--warmup-ratio", 0.5, "--max-question-tokens", 8)

    def numbers(*words):
        found = flags("finetune_squad", model, data, "save", *sizes, "--max-answer-tokens", 3, *words)
        return [found.whole(name) for name in NAMES]

    return numbers


def test_a_shorter_window_has_a_stride_in_proportion(counted):
    # 24 of 512, 6 of 128; 24 - 2 - 4 = 18 words a window, from 0, 6 and 12: 3 windows, 2 updates of 2
    assert counted() == [24, 6, 2 * 5, 5]


def test_windows_that_are_asked_for(counted):
    assert counted("--window-tokens", 96) == [96, 24, 1 * 5, 2]
    assert counted("--window-tokens", 96, "--doc-stride", 32) == [96, 32, 1 * 5, 2]


@pytest.fixture
def squad(flags, toy_inputs):
    """squad(WORD...) -> flags of "exlm-long" on the short contexts."""
    checkpoint = toy_inputs / "checkpoints" / "exlm-long.pt"
    return lambda *words: flags("finetune_squad", checkpoint, toy_inputs / "squad-short", "save", *words)


def test_the_batch_is_split_over_gpus_and_steps(squad):
    found = squad("--gpus", 2, "--window-tokens", 60, "--tokens-per-gpu", 300)
    names = ("--distributed-world-size", "--batch-size", "--update-freq")
    workers, share, steps = (found.whole(name) for name in names)
    assert workers * share * steps == 32 and share * 60 <= 300 and "--find-unused-parameters" in found
    assert "--find-unused-parameters" not in squad("--gpus", 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--batch-size", "0"], "--batch-size '0': give a whole number"),
        (["--gpus", "3"], "--batch-size 32 cannot be split evenly over 3 GPUs"),
        (["--doc-stride", "8"], "--doc-stride is given together with --window-tokens"),
        (["--window-tokens", "5000"], "--window-tokens 5000 is more than the checkpoint's 1026 positions"),
        (["--max-answer-tokens", "none"], "--max-answer-tokens 'none': give a whole number"),
        (["--update-freq", "2"], "--update-freq is worked out from --batch-size"),
        (["--max-sentences", "1"], "--max-sentences: give --batch-size"),
        (["--max-tokens", "999"], "--max-tokens: give --batch-size"),
        (["--lr", "-1"], "--lr '-1': give a number"),
        (["--lr", "0.0e3"], "--lr 0.0e3: give a number above 0"),
        (["--save-dir=elsewhere"], "--save-dir is set by finetune_squad.sh"),
        (["--window-tokens", "6"], "question known0 of 3 tokens leaves"),
    ],
)
def test_what_is_refused(squad, words, message):
    with pytest.raises(ValueError, match=message):
        squad(*words)


def test_files_that_are_not_there(flags, toy_inputs, tmp_path):
    checkpoint = toy_inputs / "checkpoints" / "exlm-long.pt"
    shutil.copytree(toy_inputs / "squad-short", tmp_path / "a:b")
    with pytest.raises(RecipeError, match="without ':' in its name"):
        flags("finetune_squad", checkpoint, tmp_path / "a:b", "save")
    (tmp_path / "a:b").rename(tmp_path / "a")
    (tmp_path / "a" / "train.npz").unlink()
    with pytest.raises(RecipeError, match="train.npz does not exist: .* by prepare_squad.py"):
        flags("finetune_squad", checkpoint, tmp_path / "a", "save")
    (tmp_path / "cut.pt").write_text("")
    with pytest.raises(RecipeError, match="cut.pt is cut short, or no checkpoint"):
        flags("finetune_squad", tmp_path / "cut.pt", toy_inputs / "squad-short", "save")
    with pytest.raises(RecipeError, match=r"was fine-tuned \(--task glue\): give the checkpoint of the"):
        flags("finetune_squad", toy_inputs / "checkpoints" / "mnli.pt", toy_inputs / "squad-short", "save")


def test_finished_with_other_settings(plan, toy_inputs, tmp_path):
    checkpoint, data = toy_inputs / "checkpoints" / "exlm-long.pt", toy_inputs / "squad-short"
    found = plan("finetune_squad", checkpoint, data, tmp_path)
    folders.claim(tmp_path, found.settings(), found.inputs, [])
    (tmp_path / "scores.json").write_text('{"exact": 50, "f1": 60.5}')
    assert "EM 50.00, F1 60.50" in plan("finetune_squad", checkpoint, data, tmp_path).finished
    with pytest.raises(RecipeError, match="holds a run of other settings"):
        plan("finetune_squad", checkpoint, data, tmp_path, "--seed", 2)
