"""The shell script hands the hyper-parameters of configs/ to fairseq-train, and says what is wrong."""

import shlex
import subprocess
from pathlib import Path

import pytest
from fairseq import options

import fs_plugins  # noqa: F401

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


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Not one of several processes, whatever the tests are run under."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)


def last(words, flag):
    return words[len(words) - words[::-1].index(flag)]


@pytest.fixture
def data(tmp_path):
    made = tmp_path / "data-bin"
    made.mkdir()
    (made / "dict.txt").write_text("word 5\n")
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


# Table 10 of the paper, as it is printed (10K, 125K).
TABLE_10 = {
    "--lr": "5e-4",
    "--lr-scheduler": "polynomial_decay",
    "--ext-state-num": "4",
    "--warmup-updates": "10000",
    "--max-update": "125000",
    "--total-num-update": "125000",
    "--dropout": "0.1",
    "--attention-dropout": "0.1",
    "--activation-dropout": "0",
    "--adam-betas": r"\(0.9\,0.98\)",
    "--mask-prob": "0.15",
    "--activation-fn": "gelu",
    "--weight-decay": "0.01",
    "--clip-norm": "0.0",
}
SIZES_10 = {"base": ("12", "12", "768", "3072"), "large": ("24", "16", "1024", "4096")}
SIZE_FLAGS = (
    *("--encoder-layers", "--encoder-attention-heads"),
    *("--encoder-embed-dim", "--encoder-ffn-embed-dim"),
)


@pytest.mark.parametrize("size", ["base", "large"])
@pytest.mark.parametrize("model", ["exlm", "mlm"])
def test_base_and_large_are_table_10(data, model, size):
    words = command(data, model, size, "--gpus", 8)
    expected = {flag: value for flag, value in TABLE_10.items() if model == "exlm" or "state" not in flag}
    assert {flag: last(words, flag) for flag in expected} == expected
    assert tuple(last(words, flag) for flag in SIZE_FLAGS) == SIZES_10[size]
    assert last(words, "--tokens-per-sample") == "512"


MODELS = sorted(path.stem for path in (SCRIPT.parents[1] / "configs" / "model").glob("*.flags"))
ENCODER = (
    *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads"),
    *("activation_fn", "dropout", "attention_dropout", "activation_dropout", "embedding_init_std"),
)


@pytest.mark.parametrize("size", ["base", "large", "paper"])
def test_every_model_has_one_and_the_same_encoder(data, size):
    """What fairseq-train makes of the flags; pre-norm."""
    found = {}
    for model in MODELS:
        words = shlex.split(" ".join(command(data, model, size)))
        args = options.parse_args_and_arch(options.get_training_parser(), words[3:])  # python -m MODULE
        found[model] = [args.encoder_normalize_before, *(getattr(args, name) for name in ENCODER)]
    sizes = tuple(map(str, found["mlm"][1:5]))
    layers, heads, d, ffn = SIZES_10["base" if size == "paper" else size]
    assert sizes == (layers, d, ffn, heads)
    assert found == dict.fromkeys(MODELS, [True, *found["mlm"][1:]])


@pytest.mark.parametrize("gpus", [0, 1, 2, 4, 16, 64])
def test_the_batch_of_table_10_whatever_the_gpus(data, gpus):
    words = command(data, "exlm", "base", "--gpus", gpus)
    workers = int(last(words, "--distributed-world-size"))
    assert workers == max(gpus, 1)
    assert workers * int(last(words, "--batch-size")) * int(last(words, "--update-freq")) == 2048


def test_one_of_many_processes(data, monkeypatch):
    for name, value in {"RANK": 13, "WORLD_SIZE": 16, "LOCAL_RANK": 5, "MASTER_PORT": 2950}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(AssertionError, match="RANK or WORLD_SIZE is set, but not MASTER_ADDR"):
        command(data, "exlm", "base", "--gpus", 8)
    monkeypatch.setenv("MASTER_ADDR", "node1")
    words = command(data, "exlm", "base", "--gpus", 8)
    assert last(words, "--distributed-init-method") == "tcp://node1:2950"
    assert (last(words, "--distributed-rank"), last(words, "--distributed-world-size")) == ("13", "16")
    assert "--distributed-no-spawn" in words and last(words, "--device-id") == "5"
    assert 16 * int(last(words, "--batch-size")) * int(last(words, "--update-freq")) == 2048
    # a scheduler may show each process its own GPU alone
    assert last(command(data, "exlm", "base", "--gpus", 1), "--device-id") == "0"
    on_cpus = command(data, "exlm", "base", "--cpu")
    assert last(on_cpus, "--distributed-backend") == "gloo" and "--device-id" not in on_cpus
    monkeypatch.setenv("RANK", "16")
    with pytest.raises(AssertionError, match="RANK=16: with WORLD_SIZE=16 it is 0 to 15"):
        command(data, "exlm", "base", "--gpus", 8)


def test_model_flags_and_what_is_given_wins(data):
    words = command(data, "exlm-sparse", "smoke", "--k", 2, "--cpu", "--updates", 10, "--seed", 7)
    assert "--sparse-dag" in words and "--cpu" in words and "--fp16" not in words
    assert last(words, "--ext-state-num") == "2"
    assert last(words, "--max-update") == last(words, "--total-num-update") == "10"
    assert int(last(words, "--warmup-updates")) < 10
    assert last(words, "--seed") == "7"
    assert last(command(data, "exlm-1d-rope", "smoke"), "--rope-dimensions") == "1"
    assert last(command(data, "exlm-no-transitions", "smoke"), "--criterion") == "nat_ctc_loss_mlm"


def test_positions_are_those_of_the_length_that_is_asked_for(data):
    for flags in (["--tokens-per-sample", 200], ["--tokens-per-sample=200"]):
        assert last(command(data, "mlm", "smoke", *flags), "--max-positions") == "200"
        assert last(command(data, "repeated-mlm", "smoke", "--k", 2, *flags), "--max-positions") == "400"
        assert last(command(data, "exlm", "smoke", "--k", 2, *flags), "--max-positions") == "402"


def test_the_batch_that_is_asked_for_is_an_updates(data):
    for flags in (["--batch-size", 1024], ["--batch-size=1024"]):
        words = command(data, "exlm", "base", "--gpus", 4, *flags)
        assert 4 * int(last(words, "--batch-size")) * int(last(words, "--update-freq")) == 1024
        assert int(last(words, "--update-freq")) > 1 and "--batch-size=1024" not in words
    words = command(data, "exlm", "base", "--gpus", 4, "--batch-size", 24, "--update-freq", 5)
    assert (last(words, "--batch-size"), last(words, "--update-freq")) == ("24", "5")


def test_stopping_early_changes_no_schedule(data):
    words = command(data, "exlm", "base", "--max-update", 1000)
    assert [last(words, flag) for flag in ("--max-update", "--total-num-update", "--warmup-updates")] == [
        "1000",
        "125000",
        "10000",
    ]


@pytest.mark.parametrize(
    ("visible", "gpus"), [("", 0), ("-1", 0), ("0,1", 2), ("0,-1,1", 1), ("GPU-8932f937", 1)]
)
def test_gpus_are_those_that_cuda_sees(data, monkeypatch, visible, gpus):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    words = command(data, "exlm", "base")
    assert last(words, "--distributed-world-size") == str(max(1, gpus))
    assert ("--fp16" in words, "--cpu" in words) == (gpus > 0, gpus == 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bert", "smoke"], "unknown model 'bert': there are exlm"),
        (["exlm", "huge"], "unknown size 'huge': there are base large paper small smoke"),
        (["exlm", "smoke", "--k", "17"], "whole number from 1 to 16"),
        (["exlm", "smoke", "--k", "0"], "whole number from 1 to 16"),
        (["exlm", "smoke", "--p", "1.5"], "share between 0 and 1"),
        (["exlm", "smoke", "--p", "0"], "share between 0 and 1"),
        (["mlm", "smoke", "--k", "2"], "the mlm has one state"),
        (["exlm", "smoke", "--ext-state-num=2"], "--ext-state-num is set by --k"),
        (["exlm", "smoke", "--save-dir", "elsewhere"], "--save-dir is SAVE"),
        (["repeated-mlm", "smoke", "--repeat-times", "2"], "--repeat-times is set by --k"),
        (["exlm", "smoke", "--update-freq", "2"], "--update-freq is worked out from --batch-size"),
        (["exlm", "smoke", "--batch-size", "many"], "--batch-size 'many': give a whole number, 1 or more"),
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
