"""Pre-training: what fairseq makes of the flags, batches, costs, and what is refused."""

import pytest
from fairseq import options
from lib import cost
from lib.command_line import UserError
from lib.folders import CONFIGS

import fs_plugins  # noqa: F401  (registers models and tasks)
from tests import pages

TEXT, SMILES = "pretrain_text", "pretrain_smiles"
MODELS = sorted(path.stem for path in (CONFIGS / "model").glob("*.flags"))
SIZE = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads")
ENCODER = (*SIZE, "activation_fn", "dropout", "attention_dropout", "activation_dropout", "embedding_init_std")


def flags(script, *words):
    """The flags of a run that is shown."""
    return pages.resolve(script, *words[:2], "d", "s", "--print", *words[2:]).flags


def update_of(found, batch="--batch-size") -> int:
    """Sentences or tokens of an update."""
    return found.whole("--distributed-world-size") * found.whole(batch) * found.whole("--update-freq")


@pytest.mark.parametrize(
    ("size", "numbers"),
    [("base", (12, 768, 3072, 12)), ("large", (24, 1024, 4096, 16)), ("paper", (12, 768, 3072, 12))],
)
def test_every_model_has_one_and_the_same_encoder(size, numbers):
    """What fairseq-train makes of the flags; pre-norm; the sizes of tables 5 and 10."""
    found = {}
    for model in MODELS:
        words = ["data", *flags(TEXT, model, size).words()]
        args = options.parse_args_and_arch(options.get_training_parser(), words)
        found[model] = [args.encoder_normalize_before, *(getattr(args, name) for name in ENCODER)]
    assert found == dict.fromkeys(MODELS, [True, *numbers, *found["mlm"][5:]])


@pytest.mark.parametrize("arch", ["exlm_smiles", "mlm_smiles"])
def test_the_architectures_are_table_7s(arch):
    args = options.parse_args_and_arch(
        options.get_training_parser(), ["data", *flags(SMILES, arch.split("_")[0], "paper").words()]
    )
    assert (args.arch, *(getattr(args, name) for name in SIZE)) == (arch, 9, 768, 2048, 12)
    assert args.activation_fn == "gelu" and args.dropout == args.attention_dropout == 0.1
    assert args.encoder_normalize_before and args.activation_dropout == 0


@pytest.mark.parametrize("gpus", [0, 1, 2, 4, 16, 64])
def test_the_batch_of_an_update_whatever_the_gpus(gpus):
    assert update_of(flags(TEXT, "exlm", "base", "--gpus", gpus)) == 2048


@pytest.mark.parametrize("gpus", [1, 2, 3, 8])
@pytest.mark.parametrize("tokens_per_gpu", [1500, 8192, 10**6])
def test_tokens_of_an_update_over_gpus_and_steps(gpus, tokens_per_gpu):
    found = flags(SMILES, "exlm", "paper", "--gpus", gpus, "--tokens-per-gpu", tokens_per_gpu, "--k", 4)
    step, steps = found.whole("--max-tokens"), found.whole("--update-freq")
    assert 0 <= 64000 - gpus * steps * step < gpus * (steps + 1)  # what does not divide evenly
    assert step * (1 + 0.15 * 3) <= tokens_per_gpu


def test_what_a_user_gives_wins():
    given = "--k 2 --cpu --seed 7 --dropout 0.3 --tokens-per-sample=200 --batch-size 24 --update-freq 5"
    found = flags(TEXT, "exlm-sparse", "smoke", *given.split(), "--num-workers", 2)
    expected = {"--ext-state-num": "2", "--seed": "7", "--dropout": "0.3", "--max-positions": "402"}
    expected |= {"--batch-size": "24", "--update-freq": "5", "--num-workers": "2", "--state-graph": "sparse"}
    assert {name: found.value(name) for name in expected} == expected and "--cpu" in found
    assert flags(TEXT, "mlm", "smoke", "--max-positions", 300).value("--max-positions") == "300"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--max-update", 1000], ("1000", "125000", "10000")),  # stopping early changes no schedule
        (["--updates", 1000], ("1000", "1000", "100")),
        (["--updates", 1000, "--warmup-updates", 900], ("1000", "1000", "900")),
    ],
)
def test_schedules(given, expected):
    found = flags(TEXT, "exlm", "base", *given)
    names = ("--max-update", "--total-num-update", "--warmup-updates")
    assert tuple(found.value(name) for name in names) == expected


def test_layers_before_the_expansion_cost_less():
    words = (TEXT, "exlm", "smoke", "d", "s", "--print", "--encoder-layers", 4)
    costs = [
        float(pages.resolve(*words, *more).notes[0].split("FLOPs")[1].split()[0])
        for more in (["--expand-from-layer", 2], [])
    ]
    assert costs[0] < costs[1]


@pytest.mark.parametrize("gpus", [0, 4])
@pytest.mark.parametrize(
    ("model", "more"),
    [("exlm", ["--k", 3, "--expand-from-layer", 1]), ("mlm", []), ("repeated-mlm", ["--k", 2])],
)
def test_the_cost_of_a_run_by_its_command(toy_inputs, model, more, gpus):
    """As --print says before."""
    data = str(toy_inputs / "text")
    words = [TEXT, model, "smoke", data, "s", *more, "--gpus", gpus, "--batch-size", 64, "--print"]
    said = float(pages.resolve(*words).notes[0].split("FLOPs")[1].split()[0])
    assert cost.flops_of_run(pages.command(*words)) == pytest.approx(said, rel=1e-2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([TEXT, "bert", "smoke"], "unknown model 'bert': choose one of exlm"),
        ([TEXT, "exlm", "huge"], "unknown size 'huge': choose one of base, large, paper"),
        ([TEXT, "exlm", "smoke", "--recipe", "t"], "unknown recipe 't': choose one of table10"),
        ([TEXT, "exlm", "smoke", "--k", "17"], "--k 17: give a whole number from 1 to 16"),
        ([TEXT, "exlm", "smoke", "--expand-from-layer", "3"], "--expand-from-layer 3: give .* from 0 to 2"),
        ([TEXT, "mlm", "smoke", "--expand-from-layer", "1"], "mlm expands no tokens; give it with an exlm"),
        ([TEXT, "mlm", "smoke", "--k", "2"], "--k 2: the mlm has one state"),
        ([TEXT, "exlm", "smoke", "--ext-state-num=2"], "--ext-state-num is set by --k"),
        ([TEXT, "exlm", "smoke", "--save-dir", "elsewhere"], "--save-dir is SAVE"),
        ([TEXT, "exlm", "smoke", "--update-freq", "2"], "--update-freq is worked out from --batch-size"),
        ([TEXT, "exlm", "smoke", "--batch-size", "many"], "--batch-size 'many': give a whole number"),
        ([TEXT, "exlm", "base", "--gpus", "3"], "--batch-size 2048 cannot be split evenly over 3 GPUs"),
        (
            [TEXT, "exlm", "smoke", "--p", "0.2", "--mask-prob", "0.3"],
            "--mask-prob is the same as --p: give one",
        ),
        ([TEXT, "exlm", "smoke", "--updates", "9", "--total-num-update", "5"], "is the same as --updates"),
        ([TEXT, "exlm", "smoke", "--mask-prob", "2"], "--mask-prob '2': give a number, 0 or more and less"),
        ([TEXT, "exlm", "smoke", "--card", "A1"], "--card A1: choose one of V100"),
        ([SMILES, "repeated-mlm", "smoke"], "unknown model 'repeated-mlm': choose one of exlm, exlm-.*, mlm"),
        ([SMILES, "exlm", "paper", "--recipe", "table5"], "a recipe with --max-tokens, such as table7"),
        ([SMILES, "exlm", "paper", "--tokens-per-gpu", "300"], "a molecule may have 512"),
    ],
)
def test_what_is_refused(words, message):
    with pytest.raises(UserError, match=message):
        flags(*words)


def test_data_have_to_be_there(tmp_path):
    with pytest.raises(UserError, match="dict.txt does not exist: .* by prepare_smiles.py"):
        pages.resolve(SMILES, "exlm", "smoke", tmp_path, "save")
    (tmp_path / "dict.txt").touch()
    with pytest.raises(UserError, match="has no train.idx$"):
        pages.resolve(TEXT, "exlm", "smoke", tmp_path, "save")
    for shard in ("shard0", "shard1"):
        (tmp_path / shard).mkdir()
        (tmp_path / shard / "train.idx").touch()
    with pytest.raises(
        UserError, match=f"has no train.idx; for its shards, give {tmp_path}/shard0:{tmp_path}/shard1$"
    ):
        pages.resolve(TEXT, "exlm", "smoke", tmp_path, "save")


def test_what_may_change_when_a_run_is_resumed(toy_inputs, tmp_path):
    def made(*rest, data=toy_inputs / "text"):
        found = pages.resolve(TEXT, "exlm", "smoke", data, tmp_path / "save", *rest)
        return found.all_settings(found.fill(["fairseq-train", "@data", "@flags"])), found.inputs

    settings, inputs = made()
    assert settings["--lr"] == "2e-3" and settings["batch"] == "16" and set(inputs) == {"dict.txt", "train"}
    for free in (["--updates", 7], ["--log-interval", 5], ["--tokens-per-gpu", 64], ["--no-save"]):
        assert made(*free) == (settings, inputs)
    assert made("--gpus", 1)[0] == settings
    for other in (["--p", "0.5"], ["--seed", "3"], ["--lr", "1"], ["--k", "2"], ["--batch-size", "32"]):
        assert made(*other)[0] != settings
    assert made(data=f"{toy_inputs / 'text'}:{toy_inputs / 'text2'}")[1] != inputs
