"""Pre-training on molecules: table 7 reaches fairseq-train, for ExLM and for SMILES-BERT."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "pretrain_smiles.sh"


def run(*arguments):
    call = ["bash", str(SCRIPT), *map(str, arguments), "--print"]
    return subprocess.run(call, capture_output=True, text=True)


def command(model, size, *arguments) -> list[str]:
    result = run(model, size, "data", "save", *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def last(words, flag):
    return words[len(words) - words[::-1].index(flag)]


# Table 7 but for what the architecture holds; "(0.9, 0.98)" as the shell quotes it
TABLE_7 = {
    "--lr": "5e-4",
    "--lr-scheduler": "polynomial_decay",
    "--warmup-updates": "10000",
    "--max-update": "120000",
    "--total-num-update": "120000",
    "--dropout": "0.1",
    "--attention-dropout": "0.1",
    "--activation-dropout": "0",
    "--adam-betas": "\\(0.9\\,0.98\\)",
    "--mask-prob": "0.15",
    "--activation-fn": "gelu",
    "--weight-decay": "0.0",
    "--clip-norm": "1.0",
}


@pytest.mark.parametrize(("model", "arch"), [("exlm", "exlm_smiles"), ("mlm", "mlm_smiles")])
def test_paper_size_is_table_7(model, arch):
    words = command(model, "paper", "--gpus", 2)
    expected = {**TABLE_7, "--arch": arch}
    assert {flag: last(words, flag).replace("'", "") for flag in expected} == expected
    assert not any(flag.startswith("--encoder") for flag in words)  # the architecture's own size
    assert ("--ext-state-num" in words) == (model == "exlm")
    if model == "exlm":
        assert last(words, "--ext-state-num") == "2"
    step, steps = int(last(words, "--max-tokens")), int(last(words, "--update-freq"))
    assert 2 * step * steps == 64000
    assert step * (1.15 if model == "exlm" else 1) <= 32768
    assert last(words, "--max-positions") == "1026"


def test_the_architectures_are_table_7s():
    """Layers, width, feed-forward and heads of table 7; pre-norm; k = 2."""
    from argparse import Namespace

    from fairseq.models import ARCH_CONFIG_REGISTRY

    import fs_plugins  # noqa: F401

    for name in ("exlm_smiles", "mlm_smiles"):
        args = Namespace()
        ARCH_CONFIG_REGISTRY[name](args)
        size = (args.encoder_layers, args.encoder_embed_dim, args.encoder_ffn_embed_dim)
        assert size == (9, 768, 2048) and args.encoder_attention_heads == 12
        assert args.activation_fn == "gelu" and args.dropout == args.attention_dropout == 0.1
        assert args.encoder_normalize_before and args.activation_dropout == 0
    args = Namespace()
    ARCH_CONFIG_REGISTRY["exlm_smiles"](args)
    assert args.ext_state_num == 2


@pytest.mark.parametrize("gpus", [1, 2, 3, 8])
@pytest.mark.parametrize("tokens_per_gpu", [1500, 8192, 10**6])
def test_an_update_is_split_over_gpus_and_steps(gpus, tokens_per_gpu):
    words = command("exlm", "paper", "--gpus", gpus, "--tokens-per-gpu", tokens_per_gpu, "--k", 4)
    step, steps = int(last(words, "--max-tokens")), int(last(words, "--update-freq"))
    assert 0 <= 64000 - gpus * steps * step < gpus * (steps + 1)  # what does not divide evenly
    assert step * (1 + 0.15 * 3) <= tokens_per_gpu
    assert last(words, "--distributed-world-size") == str(gpus)


def test_flags_that_are_given_win():
    words = command("exlm", "smoke", "--cpu", "--k", 3, "--updates", 10, "--p", 0.3, "--seed", 7)
    assert "--cpu" in words and "--fp16" not in words
    assert last(words, "--ext-state-num") == "3" and last(words, "--mask-prob") == "0.3"
    assert last(words, "--max-update") == last(words, "--total-num-update") == "10"
    assert int(last(words, "--warmup-updates")) < 10
    assert last(words, "--seed") == "7"


def test_the_tokens_that_are_asked_for_are_an_updates():
    words = command("exlm", "paper", "--gpus", 2, "--max-tokens", 128000)
    assert 0 <= 128000 - 2 * int(last(words, "--max-tokens")) * int(last(words, "--update-freq")) < 20
    words = command("exlm", "paper", "--gpus", 2, "--max-tokens", 3000, "--update-freq", 7)
    assert (last(words, "--max-tokens"), last(words, "--update-freq")) == ("3000", "7")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bert", "smoke", "d", "s"], "unknown model 'bert': there are exlm mlm"),
        (["repeated-mlm", "smoke", "d", "s"], "unknown model 'repeated-mlm'"),
        (["exlm", "huge", "d", "s"], "unknown size 'huge': there are paper small smoke"),
        (["exlm", "smoke"], "give MODEL, SIZE, DATA and SAVE"),
        (["mlm", "smoke", "d", "s", "--k", "2"], "the mlm has one state for each token; exlm has k"),
        (["exlm", "paper", "d", "s", "--recipe", "table5"], "recipe with --max-tokens, such as table7"),
        (
            ["exlm", "paper", "d", "s", "--tokens-per-gpu", "300"],
            "a molecule may have 512",
        ),
    ],
)
def test_what_the_script_refuses(arguments, message):
    result = run(*arguments)
    assert result.returncode == 2
    assert message in result.stderr


def test_data_have_to_be_there(tmp_path):
    call = ["bash", str(SCRIPT), "exlm", "smoke", str(tmp_path), "save"]
    result = subprocess.run(call, capture_output=True, text=True)
    assert result.returncode == 2
    assert "DATA is a folder made by scripts/prepare_smiles.py" in result.stderr
