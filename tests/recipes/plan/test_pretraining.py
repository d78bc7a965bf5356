"""Pre-training: tables 5, 7 and 10, batches, positions, and what is refused."""

import pytest
from fairseq import options
from recipes.command_line import RecipeError
from recipes.folders import CONFIGS
from recipes.plan import cost
from recipes.plan.batches import equal_steps

import fs_plugins  # noqa: F401  (registers models and tasks)
from tests.recipes.plan.conftest import flags_of

TEXT, SMILES = "pretrain_text", "pretrain_smiles"
# as they are printed in the paper (10K, 125K)
COMMON = {
    **{"--lr-scheduler": "polynomial_decay", "--dropout": "0.1", "--attention-dropout": "0.1"},
    **{"--activation-dropout": "0", "--adam-betas": "(0.9,0.98)", "--mask-prob": "0.15"},
    "--activation-fn": "gelu",
}
TABLE_5 = {"--lr": "2e-3", "--warmup-updates": "5000", "--max-update": "50000", "--weight-decay": "0.01"}
TABLE_5 |= {"--total-num-update": "50000", "--clip-norm": "0.0"}
TABLE_7 = {"--lr": "5e-4", "--warmup-updates": "10000", "--max-update": "120000", "--weight-decay": "0.0"}
TABLE_7 |= {"--total-num-update": "120000", "--clip-norm": "1.0"}
TABLE_10 = {"--lr": "5e-4", "--warmup-updates": "10000", "--max-update": "125000", "--weight-decay": "0.01"}
TABLE_10 |= {"--total-num-update": "125000", "--clip-norm": "0.0"}
SIZES_10 = {"base": (12, 768, 3072, 12), "large": (24, 1024, 4096, 16)}


def values(flags, names) -> dict:
    return {name: flags.value(name) for name in names}


def update_of(flags, batch: str) -> int:
    """Sentences or tokens of an update."""
    workers = int(flags.value("--distributed-world-size"))
    return workers * int(flags.value(batch)) * int(flags.value("--update-freq"))


def test_the_study_is_table_5(flags):
    found = flags(TEXT, "repeated-mlm", "paper", "d", "s", "--k", 8, "--p", 0.622, "--gpus", 4)
    expected = COMMON | TABLE_5 | {"--mask-prob": "0.622", "--repeat-times": "8", "--arch": "p_roberta_base"}
    expected["--max-positions"] = str(512 * 8)
    assert values(found, expected) == expected
    assert update_of(found, "--batch-size") == 4096


@pytest.mark.parametrize("size", ["base", "large"])
@pytest.mark.parametrize("model", ["exlm", "mlm"])
def test_base_and_large_are_table_10(flags, model, size):
    found = flags(TEXT, model, size, "d", "s", "--gpus", 8)
    expected = COMMON | TABLE_10 | ({"--ext-state-num": "4"} if model == "exlm" else {})
    assert values(found, expected) == expected
    names = ("layers", "embed-dim", "ffn-embed-dim", "attention-heads")
    assert tuple(int(found.value(f"--encoder-{name}")) for name in names) == SIZES_10[size]
    assert found.value("--tokens-per-sample") == "512" and update_of(found, "--batch-size") == 2048


@pytest.mark.parametrize(("model", "arch"), [("exlm", "exlm_smiles"), ("mlm", "mlm_smiles")])
def test_molecules_are_table_7(flags, model, arch):
    found = flags(SMILES, model, "paper", "d", "s", "--gpus", 2)
    expected = COMMON | TABLE_7 | {"--arch": arch, "--max-positions": "1026"}
    assert values(found, expected) == expected
    assert not any(name.startswith("--encoder") for name in found)  # the architecture's own size
    assert found.value("--ext-state-num") == ("2" if model == "exlm" else None)
    assert update_of(found, "--max-tokens") == 64000
    assert int(found.value("--max-tokens")) * (1.15 if model == "exlm" else 1) <= 32768


def test_the_architectures_are_table_7s():
    """Layers, width, feed-forward and heads of table 7; pre-norm; k = 2."""
    from argparse import Namespace

    from fairseq.models import ARCH_CONFIG_REGISTRY

    for name in ("exlm_smiles", "mlm_smiles"):
        args = Namespace()
        ARCH_CONFIG_REGISTRY[name](args)
        size = (args.encoder_layers, args.encoder_embed_dim, args.encoder_ffn_embed_dim)
        assert size == (9, 768, 2048) and args.encoder_attention_heads == 12
        assert args.activation_fn == "gelu" and args.dropout == args.attention_dropout == 0.1
        assert args.encoder_normalize_before and args.activation_dropout == 0
        assert getattr(args, "ext_state_num", 2) == 2


MODELS = sorted(path.stem for path in (CONFIGS / "model").glob("*.flags"))
ENCODER = (
    *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads"),
    *("activation_fn", "dropout", "attention_dropout", "activation_dropout", "embedding_init_std"),
)


@pytest.mark.parametrize("size", ["base", "large", "paper"])
def test_every_model_has_one_and_the_same_encoder(flags, size):
    """What fairseq-train makes of the flags; pre-norm."""
    found = {}
    for model in MODELS:
        words = ["data", *flags(TEXT, model, size, "d", "s").words()]
        args = options.parse_args_and_arch(options.get_training_parser(), words)
        found[model] = [args.encoder_normalize_before, *(getattr(args, name) for name in ENCODER)]
    assert tuple(found["mlm"][1:5]) == SIZES_10["base" if size == "paper" else size]
    assert found == dict.fromkeys(MODELS, [True, *found["mlm"][1:]])


@pytest.mark.parametrize("gpus", [0, 1, 2, 4, 16, 64])
def test_the_batch_of_an_update_whatever_the_gpus(flags, gpus):
    found = flags(TEXT, "exlm", "base", "d", "s", "--gpus", gpus)
    assert int(found.value("--distributed-world-size")) == max(gpus, 1)
    assert update_of(found, "--batch-size") == 2048


@pytest.mark.parametrize("gpus", [1, 2, 3, 8])
@pytest.mark.parametrize("tokens_per_gpu", [1500, 8192, 10**6])
def test_tokens_of_an_update_over_gpus_and_steps(flags, gpus, tokens_per_gpu):
    words = ("d", "s", "--gpus", gpus, "--tokens-per-gpu", tokens_per_gpu, "--k", 4)
    found = flags(SMILES, "exlm", "paper", *words)
    step, steps = int(found.value("--max-tokens")), int(found.value("--update-freq"))
    assert 0 <= 64000 - gpus * steps * step < gpus * (steps + 1)  # what does not divide evenly
    assert step * (1 + 0.15 * 3) <= tokens_per_gpu


def test_model_flags_and_what_is_given_wins(flags):
    words = ("d", "s", "--k", 2, "--cpu", "--updates", 10, "--seed", 7, "--dropout", "0.3")
    found = flags(TEXT, "exlm-sparse", "smoke", *words)
    assert found.value("--state-graph") == "sparse" and "--cpu" in found and "--fp16" not in found
    expected = {"--ext-state-num": "2", "--max-update": "10", "--total-num-update": "10", "--seed": "7"}
    assert values(found, [*expected, "--dropout"]) == {**expected, "--dropout": "0.3"}
    assert int(found.value("--warmup-updates")) < 10
    assert flags(TEXT, "exlm-1d-rope", "smoke", "d", "s").value("--rope-dimensions") == "1"
    assert flags(TEXT, "exlm-no-transitions", "smoke", "d", "s").value("--criterion") == "nat_ctc_loss_mlm"


def test_layers_before_the_expansion_are_part_of_the_model(plan):
    words = (TEXT, "exlm", "smoke", "d", "s", "--print")
    shown = [plan(*words, *more) for more in ([], ["--expand-from-layer", "2", "--encoder-layers", "4"])]
    model = shown[1].groups["model"]
    assert (model.value("--expand-from-layer"), model.value("--encoder-layers")) == ("2", "4")
    assert "--expand-from-layer" not in shown[0].groups["model"] | shown[0].groups["user"]
    whole = plan(*words, "--encoder-layers", "4")
    costs = [text.notes[0].split("FLOPs")[1].split()[0] for text in (shown[0], shown[1], whole)]
    assert float(costs[0]) < float(costs[1]) < float(costs[2])


def test_mask_is_counted_once_whether_a_dictionary_lists_it(plan, tmp_path):
    words = [f"{word} 1\n" for word in ("<mask>", "a", "b", "c")]
    costs = []
    for lines in (words, words[1:], words[1:3]):
        (tmp_path / "dict.txt").write_text("".join(lines))
        costs += plan(TEXT, "mlm", "smoke", tmp_path, "s", "--print").notes
    assert costs[0] == costs[1] != costs[2]


@pytest.mark.parametrize("gpus", [0, 4])
@pytest.mark.parametrize(
    ("model", "more"),
    [("exlm", ["--k", 3, "--expand-from-layer", 1]), ("mlm", []), ("repeated-mlm", ["--k", 2])],
)
def test_the_cost_of_a_run_by_its_command(plan, toy_inputs, model, more, gpus):
    """As --print says before."""
    data = str(toy_inputs / "text")
    found = plan(TEXT, model, "smoke", data, "s", *more, "--gpus", gpus, "--batch-size", 64, "--print")
    words = ["fairseq-train", data, "--user-dir", "p", *flags_of(found).words()]
    said = float(found.notes[0].split("FLOPs")[1].split()[0])
    assert cost.flops_of_run(words) == pytest.approx(said, rel=1e-2)
    with pytest.raises(RecipeError, match="nowhere/dict.txt"):
        cost.flops_of_run([words[0], "nowhere", *words[2:]])


@pytest.mark.parametrize("given", [["--tokens-per-sample", "200"], ["--tokens-per-sample=200"]])
def test_positions_are_those_of_the_length_that_is_asked_for(flags, given):
    assert flags(TEXT, "mlm", "smoke", "d", "s", *given).value("--max-positions") == "200"
    for model, positions in (("repeated-mlm", "400"), ("exlm", "402")):
        found = flags(TEXT, model, "smoke", "d", "s", "--k", 2, *given)
        assert found.value("--max-positions") == positions


def test_the_batch_that_is_asked_for_is_an_updates(flags):
    for given in (["--batch-size", "1024"], ["--batch-size=1024"]):
        found = flags(TEXT, "exlm", "base", "d", "s", "--gpus", 4, *given)
        assert update_of(found, "--batch-size") == 1024 and int(found.value("--update-freq")) > 1
    found = flags(TEXT, "exlm", "base", "d", "s", "--gpus", 4, "--batch-size", 24, "--update-freq", 5)
    assert (found.value("--batch-size"), found.value("--update-freq")) == ("24", "5")
    found = flags(SMILES, "exlm", "paper", "d", "s", "--gpus", 2, "--max-tokens", 3000, "--update-freq", 7)
    assert (found.value("--max-tokens"), found.value("--update-freq")) == ("3000", "7")


def test_stopping_early_changes_no_schedule(flags):
    found = flags(TEXT, "exlm", "base", "d", "s", "--max-update", 1000)
    names = ("--max-update", "--total-num-update", "--warmup-updates")
    assert [found.value(name) for name in names] == ["1000", "125000", "10000"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([TEXT, "bert", "smoke"], "unknown model 'bert': choose one of exlm"),
        ([TEXT, "exlm", "huge"], "unknown size 'huge': choose one of base, large, paper"),
        ([TEXT, "exlm", "smoke", "--recipe", "t"], "unknown recipe 't': choose one of table10"),
        ([TEXT, "exlm", "smoke", "--k", "17"], "--k 17: give a whole number from 1 to 16"),
        ([TEXT, "exlm", "smoke", "--expand-from-layer", "3"], "--expand-from-layer 3: give .* from 0 to 2"),
        ([TEXT, "exlm", "base", "--expand-from-layer=-2"], "--expand-from-layer -2: give .* from 0 to 12"),
        ([TEXT, "mlm", "smoke", "--expand-from-layer", "1"], "mlm expands no tokens; give it with an exlm"),
        ([TEXT, "mlm", "smoke", "--k", "2"], "--k 2: the mlm has one state"),
        ([TEXT, "exlm", "smoke", "--ext-state-num=2"], "--ext-state-num is set by --k"),
        ([TEXT, "repeated-mlm", "smoke", "--repeat-times", "2"], "--repeat-times is set by --k"),
        ([TEXT, "exlm", "smoke", "--save-dir", "elsewhere"], "--save-dir is SAVE"),
        ([TEXT, "exlm", "smoke", "--update-freq", "2"], "--update-freq is worked out from --batch-size"),
        ([TEXT, "exlm", "smoke", "--batch-size", "many"], "--batch-size 'many': give a whole number"),
        ([TEXT, "exlm", "base", "--gpus", "3"], "--batch-size 2048 cannot be split evenly over 3 GPUs"),
        (
            [TEXT, "exlm", "smoke", "--p", "0.2", "--mask-prob", "0.3"],
            "--p and --mask-prob are given, which .* give one",
        ),
        (
            [TEXT, "exlm", "smoke", "--updates", "9", "--total-num-update", "5"],
            "--updates and --total-num-update are given",
        ),
        ([TEXT, "exlm", "smoke", "--mask-prob", "2"], "--mask-prob '2': give a number, 0 or more and less"),
        (
            [SMILES, "repeated-mlm", "smoke"],
            "unknown model 'repeated-mlm': choose one of exlm, exlm-.*, mlm",
        ),
        ([SMILES, "exlm", "paper", "--recipe", "table5"], "a recipe with --max-tokens, such as table7"),
        ([SMILES, "exlm", "paper", "--tokens-per-gpu", "300"], "a molecule may have 512"),
    ],
)
def test_what_is_refused(flags, words, message):
    kind, model, size, *rest = words
    with pytest.raises(RecipeError, match=message):
        flags(kind, model, size, "d", "s", *rest)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (["--k", "0"], "'0': give a whole number, 1 or more"),
        (["--p", "1.5"], "'1.5': give a share between 0 and 1"),
        (["--p", "0"], "'0': give a share between 0 and 1"),
        (["--updates", "x"], "'x': give a whole number"),
        (["--gpus", "two"], "'two': give a whole number, 0 or more"),
    ],
)
def test_what_the_command_line_refuses(flags, capsys, rest, message):
    with pytest.raises(SystemExit):
        flags(TEXT, "exlm", "smoke", "d", "s", *rest)
    assert message in capsys.readouterr().err


def test_data_have_to_be_there(plan, tmp_path):
    with pytest.raises(RecipeError, match="dict.txt does not exist: .* by prepare_smiles.py"):
        plan(SMILES, "exlm", "smoke", tmp_path, "save")
    (tmp_path / "dict.txt").touch()
    with pytest.raises(RecipeError, match="has no train.idx$"):
        plan(TEXT, "exlm", "smoke", tmp_path, "save")
    for shard in ("shard0", "shard1"):
        (tmp_path / shard).mkdir()
        (tmp_path / shard / "train.idx").touch()
    shards = f"{tmp_path}/shard0:{tmp_path}/shard1"
    with pytest.raises(RecipeError, match=f"has no train.idx; for its shards, give {shards}$"):
        plan(TEXT, "exlm", "smoke", tmp_path, "save")


@pytest.mark.parametrize(
    ("sentences", "room", "expected"),
    [(2048, 1e9, (2048, 1)), (682, 100, (62, 11)), (341, 40, (31, 11)), (343, 48, (7, 49)), (7, 3, (1, 7))],
)
def test_the_fewest_equal_steps_that_fit(sentences, room, expected):
    assert equal_steps(sentences, 10, room * 10) == expected


def test_what_a_folder_is_made_of(plan, toy_inputs, tmp_path):
    def made(*rest, data=toy_inputs / "text"):
        found = plan(TEXT, "exlm", "smoke", data, tmp_path / "save", *rest)
        return found.settings(), found.inputs

    settings, inputs = made()
    assert settings["--lr"] == "2e-3" and set(inputs) == {"dict.txt", "train"}
    assert made("--updates", 7) == made("--log-interval", 5) == (settings, inputs)  # may change on the way
    assert made("--gpus", 1)[0] == settings
    for other in (["--p", "0.5"], ["--seed", "3"], ["--lr", "1"], ["--k", "2"], ["--batch-size", "32"]):
        assert made(*other)[0] != settings
    both = f"{toy_inputs / 'text'}:{toy_inputs / 'text2'}"
    assert made(data=both)[1] != inputs
