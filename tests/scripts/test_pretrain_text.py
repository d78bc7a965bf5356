"""The shell script hands the hyper-parameters of configs/ to fairseq-train, and says what is wrong."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "pretrain_text.sh"


def command(data, *arguments) -> list[str]:
    call = [
        "bash",
        str(SCRIPT),
        *map(str, arguments[:2]),
        str(data),
        "save",
        *map(str, arguments[2:]),
        "--print",
    ]
    result = subprocess.run(call, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def last(words, flag):
    return words[len(words) - words[::-1].index(flag)]


@pytest.fixture
def data(tmp_path):
    made = tmp_path / "data-bin"
    made.mkdir()
    (made / "dict.txt").write_text("word 5\n")
    for split in ("train", "valid"):
        (made / f"{split}.bin").write_bytes(b"12")
    return made


def test_paper_size_is_table_5(data):
    words = command(data, "repeated-mlm", "paper", "--k", 8, "--p", 0.622, "--gpus", 4)
    expected = {
        "--lr": "2e-3",
        "--warmup-updates": "5000",
        "--max-update": "50000",
        "--total-num-update": "50000",
        "--mask-prob": "0.622",
        "--weight-decay": "0.01",
        "--clip-norm": "0.0",
        "--max-positions": str(512 * 8),
        "--repeat-times": "8",
        "--arch": "p_roberta_base",
    }
    assert {flag: last(words, flag) for flag in expected} == expected
    assert 4 * int(last(words, "--batch-size")) * int(last(words, "--update-freq")) == 4096


def test_model_flags_and_what_is_given_wins(data):
    words = command(data, "exlm-sparse", "smoke", "--k", 2, "--cpu", "--updates", 10, "--seed", 7)
    assert "--sparse-dag" in words and "--cpu" in words and "--fp16" not in words
    assert last(words, "--ext-state-num") == "2"
    assert last(words, "--max-update") == last(words, "--total-num-update") == "10"
    assert int(last(words, "--warmup-updates")) < 10
    assert last(words, "--seed") == "7"
    assert last(command(data, "exlm-1d-rope", "smoke"), "--rope-dimensions") == "1"
    assert last(command(data, "exlm-no-transitions", "smoke"), "--criterion") == "nat_ctc_loss_mlm"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bert", "smoke"], "unknown model 'bert': there are exlm"),
        (["exlm", "huge"], "unknown size 'huge': there are paper small smoke"),
        (["exlm", "smoke", "--k", "17"], "whole number from 1 to 16"),
        (["exlm", "smoke", "--k", "0"], "whole number from 1 to 16"),
        (["exlm", "smoke", "--p", "1.5"], "share between 0 and 1"),
        (["exlm", "smoke", "--p", "0"], "share between 0 and 1"),
        (["mlm", "smoke", "--k", "2"], "the mlm has one state"),
    ],
)
def test_what_the_script_refuses(data, arguments, message):
    model, size, *rest = arguments
    result = subprocess.run(
        ["bash", str(SCRIPT), model, size, str(data), "save", *rest, "--print"],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert message in result.stderr
