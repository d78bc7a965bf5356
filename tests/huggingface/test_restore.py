"""The way back: fairseq -> folder -> fairseq, and folder -> transformers -> fairseq."""

import json
import shutil

import import_huggingface
import numpy as np
import pytest
import safetensors.torch
import torch

from fs_plugins.checkpoint import load_checkpoint
from fs_plugins.huggingface import weights
from fs_plugins.huggingface.export import export
from fs_plugins.huggingface.restore import open_checkpoint, restore, save
from fs_plugins.inference import load as load_model
from tests.huggingface.test_export import GLUE, TOKENS, head_scores, molecule_checkpoint
from tests.integration import commands
from tests.support import builders
from tests.support.builders import KINDS, WORDS

NOT_HELD = ("encoder.lm_head.", "encoder.link_positional.", "encoder.query_", "encoder.key_", "encoder.gate_")
LACKING = (
    "encoder.sentence_encoder.layers.1.fc2.bias",
    "encoder.lm_head.dense.bias",
    "encoder.key_linear.weight",
)
RESETS = ["--reset-optimizer", "--reset-dataloader", "--reset-meters", "--reset-lr-scheduler"]


def weights_of(*paths) -> list[dict]:
    return [commands.load_checkpoint(path)["model"] for path in paths]


def assert_same(before: dict, after: dict, but: tuple[str, ...] = ()) -> None:
    assert before.keys() == after.keys()
    for name, value in before.items():
        if not name.startswith(but):
            assert torch.equal(value, after[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(kind, checkpoints, folders, corpus, tmp_path, caplog):
    path = save(restore(folders[kind], corpus), tmp_path / "back.pt")
    but = NOT_HELD[1:] if kind == "ctc" else ()
    assert ("does not hold encoder.gate_linear" in caplog.text) == (kind == "ctc")
    assert_same(*weights_of(checkpoints[kind], path), but=but)
    before, after = load_checkpoint(checkpoints[kind]), load_checkpoint(path)
    for name in ("task", "criterion", "arch", "copies", "has_transitions"):
        assert getattr(after, name) == getattr(before, name)
    assert (tmp_path / "dict.txt").read_text().split()[::2] == list(before.dictionary.symbols[4:-1])
    was, now = (vars(loaded.model.args) for loaded in (before, after))
    assert {name for name, value in was.items() if now.get(name) != value} <= {"seed"}


def test_training_goes_on(checkpoints, folders, corpus, tmp_path):
    """By the restored checkpoint exactly as by the first one."""
    arch, _, flags = KINDS["exlm"]
    back, losses = save(restore(folders["exlm"]), tmp_path / "back.pt"), []
    flags = {**builders.SMALL, **flags}
    given = [x for name, value in flags.items() for x in (f"--{name.replace('_', '-')}", value)]
    for path in (checkpoints["exlm"], back):
        start = [*given, "--restore-file", path, *RESETS, "--max-update", 3]
        run = commands.train(*commands.pretraining(corpus, tmp_path / path.stem, *start, arch=arch))
        losses.append(run.losses())
    assert len(losses[0]) == 3 and losses[0] == losses[1]
    assert_same(*weights_of(*(tmp_path / name / "checkpoint_last.pt" for name in ("model", "back"))))


def test_after_a_fine_tuning(save_checkpoint, corpus, tmp_path, caplog):
    path = save_checkpoint("exlm_base", GLUE, {"_name": "glue"}, heads=[("classification", "glue", 3)])
    back = save(restore(export(path, tmp_path / "export", data=corpus), corpus), tmp_path / "back.pt")
    assert_same(*weights_of(path, back), but=NOT_HELD)
    assert "does not hold encoder.gate_linear" in caplog.text and "encoder.lm_head" in caplog.text
    torch.testing.assert_close(head_scores(back, "glue"), head_scores(path, "glue"))
    assert load_checkpoint(back).task == "glue"
    config = tmp_path / "export/config.json"
    about = json.loads(config.read_text())
    config.write_text(json.dumps({**about, "id2label": {"2": "c", "0": "a", "1": "b"}}))
    assert restore(tmp_path / "export").outputs.names == ("a", "b", "c")
    for names in ({"0": "a"}, {"0": "a", "1": "a", "2": "b"}):
        config.write_text(json.dumps({**about, "id2label": names}))
        with pytest.raises(ValueError, match="id2label is .* the model has 3 outputs"):
            restore(tmp_path / "export")


def test_settings_that_were_changed_in_transformers(folders, load, tmp_path):
    """An encoder of another norm than its architecture's name says; and what fairseq's layers do not have."""
    for kind in ("mlm", "exlm"):
        options = {"norm_first": False, "ignore_mismatched_sizes": True}
        for name, part in (("AutoModelForMaskedLM", options), ("AutoTokenizer", {})):
            load(name, folders[kind], **part).save_pretrained(tmp_path / kind)
        features = restore(tmp_path / kind).model.features(TOKENS)
        expected = load("AutoModel", tmp_path / kind).eval()(TOKENS).last_hidden_state
        torch.testing.assert_close(features[TOKENS != 1], expected[TOKENS != 1], rtol=0, atol=1e-5)
    config = json.loads((tmp_path / "mlm" / "config.json").read_text())
    for named, change in (
        ("layer_norm_eps is 1e-12", {"layer_norm_eps": 1e-12}),
        ("vocab_size is 100000000", {"vocab_size": 10**8}),
        ("100000 layers, weights of 2", {"num_hidden_layers": 10**5}),
        ("repeat_times", {"repeat_times": 2.0}),
    ):
        (tmp_path / "mlm" / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ValueError, match=named):
            restore(tmp_path / "mlm")


def test_a_regression_is_standardised_again(save_checkpoint, tmp_path):
    path = molecule_checkpoint(save_checkpoint, "regression", ("logS",), (-2.5,), (1.5,))
    back = save(restore(export(path, tmp_path / "export")), tmp_path / "back.pt")
    before, after = ([row for row, _ in load_model(p).predict(["CCO", "CC(N)=O"])] for p in (path, back))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)
    assert load_checkpoint(back).task_state == load_checkpoint(path).task_state


def test_script_and_its_errors(folders, corpus, refused, tmp_path, capsys):
    folder, path = folders["exlm"], tmp_path / "back.pt"
    assert import_huggingface.main([str(folder), str(path), "--data", str(corpus)]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    assert str(path) in refused(import_huggingface.main, folder, path)
    other = tmp_path / "other"
    builders.write_dictionary(other, [*reversed(WORDS)])  # of the same size
    for words in ((tmp_path / "x.pt", "--data", other), (other / "x.pt",)):
        assert str(other / "dict.txt") in refused(import_huggingface.main, folder, *words)
    (tmp_path / "tokenizer.json").write_text('{"model": {"merges": []}}')  # of a BPE
    assert "tokenizer.json is another model's" in refused(import_huggingface.main, folder, tmp_path / "x.pt")
    assert not (tmp_path / "x.pt").exists() and not (other / "x.pt").exists()
    copied = shutil.copytree(folder, tmp_path / "copied")
    builders.write_dictionary(copied, [*reversed(WORDS)])  # the tokenizer's is the model's
    assert restore(copied).dictionary.symbols == restore(folder).dictionary.symbols


def test_weights_that_are_not_those_of_an_exlm(folders, refused, tmp_path):
    """What is missing would be initialised, or what has other names or integers left out."""
    folder = shutil.copytree(folders["exlm"], tmp_path / "changed")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    integers = torch.zeros(48, dtype=torch.int8)
    for named, content in (
        *((f"lacks {name}", {**tensors, name: None}) for name in LACKING),
        ("the model itself", {f"_orig_mod.{key}": tensor for key, tensor in tensors.items()}),
        ("lm_head.dense.bias is of torch.int8", {**tensors, "encoder.lm_head.dense.bias": integers}),
    ):
        content = {name: tensor for name, tensor in content.items() if tensor is not None}
        safetensors.torch.save_file(content, folder / "model.safetensors")
        assert named in refused(import_huggingface.main, folder, tmp_path / "x.pt")
    part = {name: tensor for name, tensor in tensors.items() if not name.startswith(weights.TRANSITIONS)}
    safetensors.torch.save_file(part, folder / "model.safetensors")
    with pytest.raises(ValueError, match="does not hold encoder.query_linear"):
        load_model(folder).fill("this is <mask>")


def test_the_encoder_alone(load, folders, tmp_path):
    """As transformers saves it."""
    folder, is_token = tmp_path / "encoder", TOKENS != 1
    load("AutoModel", folders["exlm"]).save_pretrained(folder)
    shutil.copy(folders["exlm"] / "tokenizer.json", folder)
    features = restore(folder).model.features(TOKENS)
    expected = load("AutoModel", folder).eval()(TOKENS).last_hidden_state
    torch.testing.assert_close(features[is_token], expected[is_token], rtol=0, atol=1e-5)


def test_resized_and_padded_embeddings(folders, load, tmp_path):
    """The ids stay what they were, new tokens and the padding come after <mask>."""
    folder = folders["exlm"]
    tokenizer, model = load("AutoTokenizer", folder), load("AutoModelForMaskedLM", folder)
    tokenizer.add_tokens(["weather"])
    model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=8)
    for part in (tokenizer, model):
        part.save_pretrained(tmp_path / "resized")
    path, before = tmp_path / "back" / "back.pt", restore(folder)
    save(restore(tmp_path / "resized"), path)
    for loaded in (open_checkpoint(tmp_path / "resized"), open_checkpoint(path)):
        symbols = loaded.dictionary.symbols
        assert symbols[:21] == before.dictionary.symbols and symbols[21] == "weather" and len(symbols) == 24
        rows = loaded.model.encoder.sentence_encoder.embed_tokens.weight
        assert torch.equal(rows[:21], before.model.encoder.sentence_encoder.embed_tokens.weight)
        assert load_model(loaded.path).graph("weather is <mask>").unknown == []
