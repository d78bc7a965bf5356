"""However a training ends, its last state is saved, and the same command resumes it or leaves it as it is."""

import json

import pytest
import torch

from fs_plugins.fairseq_patches.ending import TIME
from fs_plugins.files import ENDED
from tests.integration.commands import pretraining, train
from tests.support import builders, pages, prepared

NEVER = 1_000_000
FLAGS = ("--cpu", "--batch-size", 43, "--lr", 2e-2, "--max-epoch", 30, "--patience", 3)
SLOW, LOW = pytest.mark.slow, ("--stop-min-lr", 1.5e-3)


def ended(folder) -> tuple:
    return (*json.loads((folder / ENDED).read_text()).values(),)


def updates_of(run) -> int:
    return int(run.updates[-1]["num_updates"])


def saved(folder, name="last") -> tuple[int, int]:
    """The updates and the epoch of a checkpoint."""
    state = torch.load(folder / f"checkpoint_{name}.pt")
    return state["optimizer_history"][-1]["num_updates"], state["extra_state"]["train_iterator"]["epoch"]


@pytest.mark.parametrize(
    ("by", "flags"),
    [
        ("--max-update", ("--max-update", 7)),
        (TIME, (TIME, 1e-9)),
        pytest.param("--max-epoch", ("--max-epoch", 2), marks=SLOW),
        pytest.param("--stop-min-lr", ("--force-anneal", 2, "--lr-shrink", 0.1, *LOW), marks=SLOW),
        pytest.param(
            "--patience", ("--patience", 2, "--validate-interval-updates", 3, "--lr", 0), marks=SLOW
        ),
    ],
)
def test_the_last_state_is_saved(by, flags, corpus, tmp_path):
    """Where no interval of epochs or updates is ever reached."""
    never = ("--save-interval", NEVER, "--save-interval-updates", NEVER, "--batch-size", 50)
    words = pretraining(corpus, tmp_path, *never, "--max-update", 0, *flags)
    words.remove("--disable-validation")
    last, limit = updates_of(train(*words)), flags[flags.index(by) + 1]
    assert ended(tmp_path) == (by, limit, last) and saved(tmp_path)[0] == last
    kept = (tmp_path / "checkpoint_last.pt").read_bytes()
    again = train(*words)
    if by == TIME:  # a call's own
        assert updates_of(again) == saved(tmp_path)[0] == 2
        return
    assert not again.updates and (tmp_path / "checkpoint_last.pt").read_bytes() == kept
    assert ended(tmp_path) == (by, limit, last)
    raised = ("--max-epoch", 3, "--stop-min-lr", -1, "--patience", 5, "--max-update", last + 1)
    assert [*train(*words, *raised).losses()] == [last + 1]
    assert ended(tmp_path) == ("--max-update", last + 1, last + 1)


def test_a_training_that_was_killed_as_it_ended(corpus, tmp_path):
    """Between its checkpoint and the note; fairseq would train one update more."""
    words = pretraining(corpus, tmp_path, "--max-update", 3)
    train(*words)
    (tmp_path / ENDED).unlink()
    assert not train(*words).updates and ended(tmp_path) == ("--max-update", 3, 3)


@SLOW
def test_without_an_optimizer_a_run_begins_anew_by_intent_alone(corpus, tmp_path):
    words = pretraining(corpus, tmp_path, "--max-update", 3, "--no-save-optimizer-state")
    train(*words)
    assert not train(*words).updates  # has ended
    more = [*words, "--max-update", 5]
    with pytest.raises(ValueError, match="--finetune-from-model and another folder, .*--reset-optimizer"):
        train(*more)
    assert [*train(*more, "--reset-optimizer").losses()] == [1, 2, 3, 4, 5]


@SLOW
def test_an_interval_s_checkpoint_is_kept_where_an_epoch_ends(corpus, tmp_path):
    words = ("--max-update", 0, "--max-epoch", 2, "--batch-size", 50)
    epoch = updates_of(train(*pretraining(corpus, tmp_path / "a", *words))) // 2
    words += ("--save-interval-updates", epoch)
    train(*pretraining(corpus, tmp_path / "b", *words))
    kept = [f"checkpoint_1_{epoch}.pt", f"checkpoint_2_{2 * epoch}.pt", "checkpoint_last.pt"]
    assert sorted(path.name for path in (tmp_path / "b").glob("*.pt")) == kept
    run = pretraining(corpus, tmp_path / "c", *words, "--keep-interval-updates", 1)
    run.remove("--no-epoch-checkpoints")
    train(*run)
    of_epochs = {"checkpoint1.pt", "checkpoint2.pt"}
    assert {path.name for path in (tmp_path / "c").glob("*.pt")} == {*of_epochs, *kept[1:]}


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toys")
    builders.write_split(folder / "text", "train", prepared._sentences(9, 1, prepared.WORDS), prepared.WORDS)
    prepared._checkpoint(folder, "exlm")
    prepared._glue(folder / "RTE-bin", *prepared.GLUE["RTE"], mismatched=False)
    return folder


@pytest.fixture
def finetune(toys, tmp_path):
    """finetune(SAVE, FLAG...) -> what the script says."""
    inputs = ("RTE", toys / "checkpoints/exlm.pt", toys)

    def call(save, *flags, **more) -> str:
        words = (*FLAGS, *flags)
        return pages.run("finetune_glue", *inputs, tmp_path / save, *words, **more)

    return call


@SLOW
def test_an_early_stop_that_is_interrupted(finetune, stopped, tmp_path):
    """Before validations are counted, while they are, and before the best epoch is scored: it has the best
    epoch and the scores of one that is not."""

    def evaluation_is_killed(command, log):
        return pages._run(command, log) if command[0] == "fairseq-train" else 9

    def outcome(save):
        result = json.loads((tmp_path / save / "result.json").read_text())
        return result["metrics"], result["ended"], saved(tmp_path / save, "best")

    kept = ("--keep-best-checkpoints", 2)
    finetune("whole", *kept)
    last = outcome("whole")[1]["updates"]
    assert outcome("whole")[1]["by"] == "--patience" and last < 30 * 3
    for updates in (2, last - 4, last):
        save = f"{updates}"
        if updates == last:
            with pytest.raises(AssertionError, match="ended with 9"):
                finetune(save, execute=evaluation_is_killed)
        else:
            with stopped(updates):
                finetune(save)
            assert not (tmp_path / save / ENDED).exists()
        finetune(save)
        assert outcome(save) == outcome("whole")
    names = {path.name.split("_")[0] for path in (tmp_path / "whole").glob("*.pt")}
    assert names == {"checkpoint", "checkpoint.best"} and not (tmp_path / "whole/checkpoint_last.pt").exists()


@SLOW
def test_a_fine_tuning_in_several_calls(finetune, tmp_path):
    """Each ended by a limit of time, in or at the end of an epoch, is not scored until the last, and the
    epochs alone are validated."""
    statuses = []

    def in_parts(command, log):
        """As ``run`` of lib/common.sh."""
        status = pages._run(command, log)
        statuses.append(75 if ended(tmp_path / "a")[0] == TIME else status)
        return statuses[-1]

    finetune("whole", "--max-epoch", 2)
    while not (tmp_path / "a/result.json").exists():
        try:
            finetune("a", "--max-epoch", 2, TIME, 1e-9, execute=in_parts)
        except AssertionError as error:
            assert "ended with 75" in str(error) and len(statuses) <= 6  # updates
    assert statuses == [*[75] * (len(statuses) - 2), 0, 0] and len(statuses) >= 6  # trained, and scored
    whole, found = (json.loads((tmp_path / save / "result.json").read_text()) for save in ("whole", "a"))
    assert found["metrics"] == whole["metrics"] and found["ended"] == whole["ended"]
    assert saved(tmp_path / "a", "best") == saved(tmp_path / "whole", "best")
