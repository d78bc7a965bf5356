"""The way back: fairseq -> folder -> fairseq, and folder -> transformers -> fairseq."""

import json
import shutil

import import_huggingface
import pytest
import safetensors.torch
import torch

from fs_plugins.checkpoint import load_checkpoint
from fs_plugins.huggingface import weights
from fs_plugins.huggingface.export import export
from fs_plugins.huggingface.restore import restore, save
from fs_plugins.inference import load as load_model
from tests.huggingface.test_export import GLUE, NOT_HELD, TOKENS, assert_comes_back
from tests.integration import commands
from tests.support import builders
from tests.support.builders import KINDS, WORDS

LACKING = (
    "encoder.sentence_encoder.layers.1.fc2.bias",
    "encoder.lm_head.dense.bias",
    "encoder.key_linear.weight",
)
RESETS = ["--reset-optimizer", "--reset-dataloader", "--reset-meters", "--reset-lr-scheduler"]


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(kind, checkpoints, folders, corpus, tmp_path, caplog):
    path = assert_comes_back(
        checkpoints[kind], folders[kind], tmp_path, corpus, NOT_HELD[1:] if kind == "ctc" else ()
    )
    assert ("does not hold encoder.gate_linear" in caplog.text) == (kind == "ctc")
    was, now = (vars(load_checkpoint(one).model.args) for one in (checkpoints[kind], path))
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
    last = (tmp_path / name / "checkpoint_last.pt" for name in ("model", "back"))
    first, second = (commands.load_checkpoint(path)["model"] for path in last)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_names_of_classes(save_checkpoint, corpus, tmp_path):
    """In whatever order; one for each output, and each another."""
    path = save_checkpoint("exlm_base", GLUE, {"_name": "glue"}, heads=[("classification", "glue", 3)])
    config = export(path, tmp_path / "export", data=corpus) / "config.json"
    about = json.loads(config.read_text())
    config.write_text(json.dumps({**about, "id2label": {"2": "c", "0": "a", "1": "b"}}))
    assert restore(tmp_path / "export").outputs.names == ("a", "b", "c")
    for names in ({"0": "a"}, {"0": "a", "1": "a", "2": "b"}):
        config.write_text(json.dumps({**about, "id2label": names}))
        with pytest.raises(ValueError, match="id2label is .* the model has 3 outputs"):
            restore(tmp_path / "export")


def test_what_transformers_saves(folders, load, tmp_path):
    """The encoder alone; and models of another norm than the name of their architecture says."""
    post = {"norm_first": False, "ignore_mismatched_sizes": True}
    saved = (("AutoModel", "exlm", {}), *(("AutoModelForMaskedLM", kind, post) for kind in ("exlm", "mlm")))
    for number, (name, kind, options) in enumerate(saved):
        folder = tmp_path / str(number)
        for part in (load(name, folders[kind], **options), load("AutoTokenizer", folders[kind])):
            part.save_pretrained(folder)
        features = restore(folder).model.features(TOKENS)
        expected = load("AutoModel", folder).eval()(TOKENS).last_hidden_state
        torch.testing.assert_close(features[TOKENS != 1], expected[TOKENS != 1], rtol=0, atol=1e-5)


def test_settings_that_are_not_those_of_the_weights(folders, tmp_path):
    """Or that fairseq's layers do not have."""
    folder = shutil.copytree(folders["mlm"], tmp_path / "mlm")
    config = json.loads((folder / "config.json").read_text())
    for named, change in (
        ("layer_norm_eps is 1e-12", {"layer_norm_eps": 1e-12}),
        ("vocab_size is 100000000", {"vocab_size": 10**8}),
        ("100000 layers, weights of 2", {"num_hidden_layers": 10**5}),
        ("repeat_times", {"repeat_times": 2.0}),
    ):
        (folder / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ValueError, match=named):
            restore(folder)


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
