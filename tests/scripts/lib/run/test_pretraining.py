"""Pre-training: what fairseq makes of the flags, batches, and what is refused."""

import itertools
import shutil
from unittest.mock import MagicMock

import pytest
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from lib import files
from lib.files import CONFIGS

import fs_plugins
from tests.support import builders, pages
from tests.support.builders import write_file

fs_plugins.register()

TEXT, SMILES = "pretrain_text", "pretrain_smiles"
MODELS = sorted(path.stem for path in (CONFIGS / "model").glob("*.flags"))
SIZE = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads")
STEPS = [(2048, 10**8, 2048, 1), (682, 100, 62, 11), (341, 40, 31, 11), (343, 48, 7, 49), (7, 3, 1, 7)]
# of samples of so many tokens
VALIDATED = [(TEXT, "text", ("exlm", "mlm", "repeated-mlm"), 12), (SMILES, "molecules", ("exlm", "mlm"), 34)]
ENCODER = (*SIZE, "activation_fn", "dropout", "attention_dropout", "activation_dropout", "embedding_init_std")


def flags(script, *words):
    """The flags of a run that is shown."""
    return pages.resolve(script, *words[:2], "d", "s", "--print", *words[2:]).flags


def test_every_model_has_one_and_the_same_encoder():
    """What fairseq-train makes of the flags; pre-norm; the sizes of table 10."""
    found = {}
    for model in MODELS:
        words = ["data", *flags(TEXT, model, "large").words()]
        args = options.parse_args_and_arch(options.get_training_parser(), words)
        found[model] = [args.encoder_normalize_before, *(getattr(args, name) for name in ENCODER)]
    assert found == dict.fromkeys(MODELS, [True, 24, 1024, 4096, 16, *found["mlm"][5:]])


@pytest.mark.parametrize(("sentences", "room", "size", "steps"), STEPS)
def test_the_fewest_equal_steps_that_fit(sentences, room, size, steps):
    words = ("--batch-size", sentences, "--tokens-per-sample", 10, "--tokens-per-gpu", 10 * room, "--cpu")
    found = flags(TEXT, "mlm", "paper", *words)
    assert (found.whole("--batch-size"), found.whole("--update-freq")) == (size, steps)


@pytest.mark.parametrize("gpus", [1, 3, 8])
@pytest.mark.parametrize("tokens_per_gpu", [1500, 10**6])
def test_tokens_of_an_update_over_gpus_and_steps(gpus, tokens_per_gpu):
    found = flags(SMILES, "exlm", "paper", "--gpus", gpus, "--tokens-per-gpu", tokens_per_gpu, "--k", 4)
    step, steps = found.whole("--max-tokens"), found.whole("--update-freq")
    assert 0 <= 64000 - gpus * steps * step < gpus * (steps + 1)  # what does not divide evenly
    assert step * (1 + 0.15 * 3) <= tokens_per_gpu


def validated(script, model, data, save, *words) -> tuple[list[int], int]:
    """The sentences of a validation, and how many of them are a batch at most."""
    _, *command = pages.command(script, model, "smoke", data, save, "--cpu", *words)
    args = options.parse_args_and_arch(options.get_training_parser(), command)
    cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    task.load_dataset("valid")
    trainer = MagicMock(cfg=cfg, task=task, data_parallel_world_size=1, data_parallel_rank=0)
    trainer.model.max_positions.return_value = 1 << 20
    batches = Trainer.get_valid_iterator(trainer, "valid").next_epoch_itr(shuffle=False)
    found = [batch["id"].tolist() for batch in itertools.islice(batches, cfg.dataset.max_valid_steps + 1)]
    return sum(found, []), max(map(len, found))


@pytest.mark.parametrize(("script", "data", "models", "tokens"), VALIDATED)
def test_every_model_and_machine_validates_on_the_same_sentences(script, data, models, tokens, toy_inputs):
    """Whatever fits a step: of models that expand or repeat, on a large GPU and on a small one."""
    words = ("s", "--tokens-per-sample", tokens, "--valid-sentences", 8, "--tokens-per-gpu")
    cases = [(model, room) for model in models for room in (40, 32768)]
    found = [validated(script, model, toy_inputs / data, *words, room) for model, room in cases]
    assert {size for _, size in found} >= {1, 8}
    first, *others = (sentences for sentences, _ in found)
    assert len({*first}) == 8 and all(other == first for other in others)


def test_a_start_is_for_the_first_call(tmp_path):
    """A rerun would be set back again."""
    for there, start, kept in ((0, "a.pt", 2), (1, "a.pt", 0), (1, tmp_path / "checkpoint_1_9.pt", 0)):
        if there:
            (tmp_path / "checkpoint_last.pt").touch()
        words = (SMILES, "exlm", "smoke", "d", tmp_path, "--print", "--restore-file", start)
        found = pages.resolve(*words, "--reset-optimizer").flags
        assert len({"--restore-file", "--reset-optimizer"} & found.keys()) == kept


def test_states_of_a_model_that_has_none():
    with pytest.raises(ValueError, match="--k 4"):
        flags(TEXT, "mlm", "paper", "--k", 4)


def test_data_of_another_kind(toy_inputs, tmp_path):
    def folder(name, symbols):
        """What pre-training data look like before they are read."""
        for end in ("idx", "bin"):
            write_file(tmp_path / name / f"train.{end}", "")
        builders.write_dictionary(tmp_path / name, symbols)
        return tmp_path / name

    def ask(data, *words):
        pages.resolve(SMILES, "exlm", "smoke", data, tmp_path / "save", *words)

    a, b, c = folder("a", "c="), folder("b", "=c"), folder("c", "c=")
    ask(f"{a}:{c}")
    other = shutil.copy(toy_inputs / "checkpoints/exlm-smiles.pt", c)  # of other atoms
    write_file(folder("d", "a") / "prepared.json", {"kind": "smiles", "vocabulary": "0a"})  # not today's
    with pytest.raises(ValueError, match="holds data of text"):
        ask(write_file(folder("e", "a") / "prepared.json", {"kind": "text"}).parent)
    for words in ([f"{a}:{c}:{b}"], [c, "--restore-file", other], [tmp_path / "d"]):
        with pytest.raises(ValueError, match="dict.txt"):
            ask(*words)


def test_data_that_were_copied_in_part(tmp_path):
    data = builders.smiles_folder(tmp_path / "data")
    for name in ("train.bin", "valid.idx"):
        content = (data / name).read_bytes()
        (data / name).write_bytes(content[:-2])
        with pytest.raises(ValueError, match=f"{name} has {len(content) - 2:,} of {len(content):,} bytes"):
            pages.resolve(SMILES, "exlm", "smoke", data, tmp_path / "save")
        (data / name).write_bytes(content)
    pages.resolve(SMILES, "exlm", "smoke", data, tmp_path / "save")


def test_sentences_longer_than_a_sample(toy_inputs, tmp_path):
    words = (TEXT, "exlm", "smoke", toy_inputs / "text", tmp_path / "save", "--tokens-per-sample", "8")
    pages.resolve(*words)
    mode = ("--sample-break-mode", "complete")
    with pytest.raises(ValueError, match=r"a sentence of \d+ tokens"):
        pages.resolve(*words, *mode)
    pages.resolve(*words, *mode, "--skip-invalid-size-inputs-valid-test")


def test_what_may_change_when_a_run_is_resumed(toy_inputs, tmp_path):
    data = shutil.copytree(toy_inputs / "text", tmp_path / "data")

    def made(*rest):
        found = pages.resolve(TEXT, "exlm", "smoke", data, tmp_path / "save", *rest)
        return found.all_settings(), files.sha256(*found.inputs["data"])

    settings, inputs = made()
    assert settings["--lr"] == "2e-3" and settings["batch"] == "16"
    for free in (["--updates", 7], ["--log-interval", 5], ["--tokens-per-gpu", 64], ["--no-save"]):
        assert made(*free) == (settings, inputs)
    assert made("--gpus", 1, "--fp32")[0] == settings
    for other in (["--gpus", 1], ["--bf16"]):  # the optimizer's state does not fit
        assert made(*other)[0] != settings
    for other in (["--p", "0.5"], ["--seed", "3"], ["--lr", "1"], ["--k", "2"], ["--batch-size", "32"]):
        assert made(*other)[0] != settings
    for file in ("train.bin", "valid.bin"):  # other tokens of the same lengths
        content = (data / file).read_bytes()
        (data / file).write_bytes(content[:-4] + bytes([content[-4] ^ 1]) + content[-3:])
        assert made() == (settings, found := made()[1]) and found != inputs
        (data / file).write_bytes(content)
