"""What the terminal shows of a training: its progress and its troubles, while train.log has it all."""

import json
import sys

import pytest
from lib.command_line import Flags
from lib.run import launch, progress

from tests.support.builders import write_file

INFO, WARNING = (f"2026-01-02 03:04:05 | {level} | trainer | " for level in ("INFO", "WARNING"))
FLAGS = Flags.of("--max-epoch 4 --total-num-update 40 --best-checkpoint-metric mae")


def figures(kind: str, **values) -> str:
    return f"{INFO.replace('trainer', kind)}{json.dumps(values)}\n"


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_line_for_each_validation_and_what_is_no_information(size, monkeypatch):
    clock = iter([100.0, 100.5, 102.0, 104.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    shown = [f"{WARNING}20 molecules\n", "of them μ\n"]
    log = ["started\n", f"{INFO}Model(\n", "  (layers)\n", *shown, f"{INFO}more\n"]
    log += [figures("valid", epoch=1, valid_mae="0.5", valid_num_updates="10")]
    log += [figures("train_inner", epoch=2, loss="3.5", num_updates="12"), f"{INFO}saved\n"]
    log += [figures("valid", epoch=2, valid_mae="0.7", valid_num_updates="20", valid_best_mae="0.5")]
    log += [figures("valid", epoch=3, valid_mae="0.25", valid_num_updates="30"), "left over"]
    text, view = "".join(log).encode(), progress.Progress(FLAGS)
    said = b"".join(view(text[i : i + size]) for i in range(0, len(text), size)).decode()
    expected = ["epoch 1 of 4, valid mae 0.5\n", "epoch 2 of 4, valid mae 0.7 (best 0.5), 0:00:04 left\n"]
    expected += ["epoch 3 of 4, valid mae 0.25, 0:00:02 left\n"]
    assert said == "".join(["started\n", *shown, *expected])
    assert view.end(9) == f"{INFO}more\n{INFO}saved\nleft over\n"


@pytest.mark.parametrize("error", [True, False])
def test_a_training_that_fails_shows_its_error_or_how_its_log_ends(error, tmp_path, monkeypatch, capfd):
    end = "raise RuntimeError('no μ')" if error else "import os; os.kill(os.getpid(), 9)"
    lines = [f"print({INFO!r} + '{i}', flush=True)" for i in range(40)]
    program = write_file(tmp_path / "train.py", "\n".join([*lines, end]))
    monkeypatch.setitem(launch.PROGRAMS, "fairseq-train", [sys.executable, str(program)])
    with (tmp_path / "lock").open("w") as lock:
        log = tmp_path / "train.log"
        status = launch.run(["fairseq-train", "data", *FLAGS.words()], log, lock.fileno())
    said = capfd.readouterr().out
    assert status == (1 if error else 128 + 9)
    assert all(f"{INFO}{i}\n" in log.read_text() for i in range(40))
    assert ("no μ" in said, f"{INFO}39" in said) == (error, not error)
    assert f"{INFO}5\n" not in said
