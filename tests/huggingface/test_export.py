"""What an export writes: heads with their labels and units, cards; what comes back; and what stops it."""

import argparse
import math
import shutil

import export_huggingface
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from fs_plugins.checkpoint import load as load_checkpoint
from fs_plugins.checkpoint import write_checkpoint
from fs_plugins.checkpoint_folder import NOT_FINE_TUNED
from fs_plugins.finetuning.outputs import PropertyInfo
from fs_plugins.huggingface import card as card_of
from fs_plugins.huggingface.export import export
from fs_plugins.inference import load as load_model
from tests.models.test_parity import case, flags_of
from tests.support import builders

TOKENS = torch.tensor([[0, 5, 8, 6, 7, 2], [0, 4, 9, 2, 1, 1]])
GLUE = {"_name": "sentence_prediction", "classification_head_name": "glue", "regression_target": False}


def assert_comes_back(path, folder, to, but: tuple[str, ...] = (), data=None) -> None:
    """Reads a folder, and as a checkpoint of fairseq's: it has what ``path`` had that was exported."""
    back = to / "back.pt"
    write_checkpoint(folder, back)
    was = load_checkpoint(path, data, "cpu")
    for one in (folder, back):
        now = load_checkpoint(one, device="cpu")
        weights, again = was.model.state_dict(), now.model.state_dict()
        assert weights.keys() == again.keys()
        for name in [name for name in weights if not name.startswith(but)]:
            in_units = 1e-6 if name.startswith("classification_heads.property") else 0
            torch.testing.assert_close(again[name], weights[name], rtol=in_units, atol=in_units)
        for name in ("task", "criterion", "arch", "properties", "head", "longest"):
            assert getattr(now, name) == getattr(was, name), name
        assert vars(now.cfg.model) == vars(was.cfg.model)
        assert now.dictionary.symbols == was.dictionary.symbols


@pytest.mark.parametrize("kind", builders.EXPORTED)
def test_there_and_back(kind, checkpoints, folders, corpus, tmp_path):
    """To the bit, and again to an export of the same files, which hold no paths."""
    assert_comes_back(checkpoints[kind], folders[kind], tmp_path, data=corpus)
    again = export(folders[kind], tmp_path / kind)
    for path in folders[kind].iterdir():
        content = path.read_bytes()
        assert content == (again / path.name).read_bytes(), path.name
        assert not any(str(p).encode() in content for p in (corpus, checkpoints[kind].parent)), path.name


def molecule_checkpoint(save_checkpoint, kind, names, mean, std, data="nowhere", arch="exlm_base"):
    symbols, name = builders.dictionary(builders.ATOMS), {"_name": "molecule_property"}
    state = {**PropertyInfo(kind, names, mean, std).to_dict(), "symbols": symbols.symbols}
    more = {"heads": [("classification", "property", len(names))], "task_state": {name["_name"]: state}}
    groups = {**name, "classification_head_name": "property"}, {**name, "data": str(data)}
    return save_checkpoint(arch, *groups, symbols=symbols, **more)


LOSSES = {"glue": F.cross_entropy, "classification": F.binary_cross_entropy_with_logits}
LOSSES["regression"] = F.mse_loss


@pytest.mark.parametrize("arch", ["exlm_base", "mlm_tiny"])  # a class of ours, and ESM
@pytest.mark.parametrize("kind", LOSSES)
def test_fine_tuned(kind, arch, save_checkpoint, corpus, load, tmp_path):
    """Logits are in the units of the labels; loss and predictions are those of the checkpoint."""
    mean, std = ((-2.5, 310.0), (1.5, 40.0)) if kind == "regression" else ((0.0, 0.0), (1.0, 1.0))
    if kind == "glue":
        names, data, text, labels = ("entailment", "not_entailment"), corpus, "this is good", [0, 1]
        builders.write_file(tmp_path / "RTE-bin/label/dict.txt", "".join(f"{name} 1\n" for name in names))
        task = {"_name": "glue", "data": str(tmp_path / "RTE-bin"), "num_classes": 2}
        path = save_checkpoint(arch, GLUE, task, heads=[("classification", "glue", 2)])
    else:
        names, data, text, labels = ("logS", "melting point"), None, "CCO", [[1.0, 0.5], [0.0, 1.0]]
        path = molecule_checkpoint(save_checkpoint, kind, names, mean, std, arch=arch)
    folder = export(path, tmp_path / "export", data=data)
    own_code = arch == "exlm_base"
    model = load("AutoModelForSequenceClassification", folder, trust_remote_code=own_code).eval()
    assert model.config.id2label == dict(enumerate(names))
    was = load_checkpoint(path, data, "cpu")
    expected = was.model(TOKENS, classification_head_name=was.head)[0]
    expected = expected * torch.tensor(std) + torch.tensor(mean)
    labels = torch.tensor(labels)
    output = model(TOKENS, attention_mask=TOKENS.ne(1).long(), labels=labels)
    torch.testing.assert_close(output.logits, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(output.loss, LOSSES[kind](expected, labels), rtol=1e-5, atol=1e-5)
    assert not any("lm_head" in name or "query_" in name for name in load_file(folder / "model.safetensors"))
    assert card_of.code("a ``\n# <b>") == "`a # <b>`"
    assert_comes_back(path, folder, tmp_path, NOT_FINE_TUNED, data)
    before, after = load_model(path, data=data, device="cpu"), load_model(folder, device="cpu")
    assert (*before.outputs.names,) == (*after.outputs.names,) == names
    [[(row, _)], [(again, _)]] = ([*one.predict(text)] for one in (before, after))
    np.testing.assert_allclose(again, row, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="no LM head"):
        after.fill("<mask>")


def test_one_property_of_two_classes(save_checkpoint, load, tmp_path):
    path = molecule_checkpoint(save_checkpoint, "classification", ("active",), (0.0,), (1.0,))
    model = load("AutoModelForSequenceClassification", export(path, tmp_path / "export"))
    output = model.eval()(TOKENS, labels=(labels := torch.tensor([[1.0], [0.0]])))
    torch.testing.assert_close(output.loss, LOSSES["classification"](output.logits, labels))


def test_values_far_from_zero(save_checkpoint, tmp_path):
    """float16 would round them by 0.4."""
    path = molecule_checkpoint(save_checkpoint, "regression", ("energy",), (1234.4,), (1.0,))
    folder = export(path, tmp_path / "half", half=True)
    [[(before, _)], [(after, _)]] = ([*load_model(model).predict("CCO")] for model in (path, folder))
    assert abs(before - after).item() < 0.05


def test_the_authors_checkpoint(record, load, tmp_path):
    """As their release saves it: flags in ``args``, and none of this package's own."""
    recorded = case(record, "dag")
    flags = {**flags_of(recorded), "arch": "p_roberta_ext_denselink_base"}
    args = argparse.Namespace(**flags, task="masked_lm", criterion=builders.DAG, data=str(tmp_path))
    builders.write_dictionary(tmp_path, record["symbols"][4:])
    history = [{"num_updates": 1, "lr_scheduler_state": {}, "optimizer_name": "adam"}]
    saved = {"args": args, "model": recorded["state"], "optimizer_history": history, "extra_state": {}}
    torch.save(saved, tmp_path / "checkpoint.pt")
    model = load("AutoModelForMaskedLM", export(tmp_path / "checkpoint.pt", tmp_path / "export")).eval()
    labels = recorded["tgt"].masked_fill(recorded["tgt"] == 1, -100)
    loss = model(recorded["src"], labels=labels).loss.item()
    assert loss == pytest.approx(float(recorded["loss"]), rel=1e-5)


def test_what_cannot_be_exported(folders, checkpoints, corpus, tmp_path):
    state, large = torch.load(checkpoints["mlm"], weights_only=False), tmp_path / "large.pt"
    state["model"]["encoder.lm_head.bias"][3] = 1e6  # more than float16 can hold
    torch.save(state, large)
    with pytest.raises(FileExistsError):
        export(checkpoints["mlm"], folders["exlm"])
    for path in (large, checkpoints["ctc"], checkpoints["repeated"]):
        with pytest.raises(ValueError):
            export(path, tmp_path / "export", data=corpus, half=True)
    assert not (tmp_path / "export").exists()


def test_folders_that_lack_weights(folders, tmp_path):
    """Of as many layers as they say, no memory is taken."""
    folder = shutil.copytree(folders["mlm"], tmp_path / "mlm")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"encoder_layers": 2', '"encoder_layers": 100000'))
    with pytest.raises(ValueError, match="weights of 2"):
        load_checkpoint(folder)
    (folder / "config.json").write_text(text)
    tensors = load_file(folder / "model.safetensors")
    del tensors["esm.encoder.layer.1.output.dense.bias"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match="encoder.sentence_encoder.layers.1.fc2.bias"):
        load_checkpoint(folder)


def test_script(checkpoints, folders, load, tmp_path):
    """Stored as float16, computed in float32."""
    (tmp_path / "notes.md").write_text("## Results\n\nNone yet.\n")
    words = [checkpoints["mlm"], tmp_path / "half", "--half", "--notes", tmp_path / "notes.md"]
    assert export_huggingface.main([*map(str, words)]) == 0
    assert (tmp_path / "half/README.md").read_text().endswith("\n\n## Results\n\nNone yet.\n")
    whole, half = (load_file(f / "model.safetensors") for f in (folders["mlm"], tmp_path / "half"))
    assert whole.keys() == half.keys()
    assert all(torch.equal(half[name].half(), value.half()) for name, value in whole.items())
    model = load("AutoModelForMaskedLM", tmp_path / "half")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(torch.equal(model.state_dict()[name], value.float()) for name, value in half.items())
    assert math.isclose(float(model.esm.rotary_embeddings.inv_freq[1]), 0.01, rel_tol=1e-6)
