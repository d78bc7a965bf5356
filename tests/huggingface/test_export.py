"""What an export writes: files, heads with their labels and units, cards; and what stops it."""

import argparse
import ast
import json
import os
import re
from pathlib import Path

import export_huggingface
import pytest
import torch
import torch.nn.functional as F
import yaml
from safetensors.torch import load_file

from fs_plugins.checkpoint import load_checkpoint
from fs_plugins.finetuning.outputs import PropertyInfo
from fs_plugins.huggingface import model_card, weights
from fs_plugins.huggingface.export import export
from fs_plugins.huggingface.restore import restore, save
from fs_plugins.inference import load as load_model
from tests.integration import commands
from tests.models.test_parity import case, flags_of
from tests.support import builders

TOKENS = torch.tensor([[0, 5, 8, 6, 7, 2], [0, 4, 9, 2, 1, 1]])
GLUE = {"_name": "sentence_prediction", "classification_head_name": "glue", "regression_target": False}


NOT_HELD = ("encoder.lm_head.", "encoder.link_positional.", "encoder.query_", "encoder.key_", "encoder.gate_")


def assert_comes_back(path, folder, to, data=None, but: tuple[str, ...] = NOT_HELD) -> Path:
    """Imports a folder as a checkpoint, which has what ``path`` had that was exported."""
    back = save(restore(folder, data), to / "back" / "back.pt")
    weights, again = (commands.load_checkpoint(one)["model"] for one in (path, back))
    assert weights.keys() == again.keys()
    for name in [name for name in weights if not name.startswith(but)]:
        in_units = 1e-6 if name.startswith("classification_heads.property") else 0
        torch.testing.assert_close(again[name], weights[name], rtol=in_units, atol=in_units)
    was, now = (load_checkpoint(one, data) for one in (path, back))
    for name in ("task", "criterion", "arch", "copies", "has_transitions", "task_state", "head", "longest"):
        assert getattr(now, name) == getattr(was, name) or (name, but) == ("has_transitions", NOT_HELD)
    assert now.dictionary.symbols == was.dictionary.symbols
    return back


def test_files_hold_no_paths_and_the_card_the_training(folders, checkpoints):
    folder = folders["exlm"]
    files = [path for path in folder.iterdir() if path.is_file()]
    text = "".join(path.read_text() for path in files if path.suffix in (".json", ".md", ".py"))
    assert str(checkpoints["exlm"].parent) not in text
    assert all(piece in text for piece in ("k = 3", "| updates | 5 |", "| seed | 7 |", "4.75"))


def test_a_card_is_text_without_the_environment(save_checkpoint, folders, monkeypatch):
    """Whatever a checkpoint of others, or a folder, is called and holds."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    path = save_checkpoint("exlm_base", seed=3)
    hostile = "x | y |\n\n<script>`[a](b)\x1b[31m"
    name = 'a"; import os #`<b>\n| end'
    loaded = load_checkpoint(path)
    loaded.cfg.task.mask_prob = "${oc.env:HF_TOKEN}"  # with either of these a checkpoint would be refused
    loaded.cfg.task.sample_break_mode = hostile
    config = json.loads((folders["exlm"] / "config.json").read_text())
    about = {"name": name, "licence": "a: b\nc: d", "notes": ""}
    card = model_card.write(loaded, config, loaded.codec("none"), {}, **about)
    assert "hf_secret" not in card and os.environ["HOME"] not in card and "\x1b" not in card
    assert "| mask prob | ${oc.env:HF_TOKEN} |" in card
    assert r"| sample break mode | x \| y \| &lt;script&gt;\`\[a\](b) \[31m |" in card
    assert '# a"; import os #\\`&lt;b&gt; \\| end' in card
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "a: b\nc: d"
    code = ast.parse(re.search("```python\n(.*?)```", card, re.S)[1])
    assert [node.value for node in ast.walk(code) if isinstance(node, ast.Constant)].count(name) == 3


def test_glue(save_checkpoint, corpus, load, tmp_path):
    (tmp_path / "RTE-bin" / "label").mkdir(parents=True)
    labels = "entailment 1\nnot_entailment 1\nmadeupword0000 0\n"
    (tmp_path / "RTE-bin" / "label" / "dict.txt").write_text(labels)
    task = {"_name": "glue", "data": str(tmp_path / "RTE-bin"), "num_classes": 2}
    path = save_checkpoint("exlm_base", GLUE, task, heads=[("classification", "glue", 2)], pooler_dropout=0.1)
    expected = load_checkpoint(path, corpus).model(TOKENS, classification_head_name="glue")[0]
    folder = export(path, tmp_path / "export", data=corpus)
    model = load("AutoModelForSequenceClassification", folder).eval()
    assert model.config.id2label == {0: "entailment", 1: "not_entailment"}
    output = model(TOKENS, labels=torch.tensor([0, 1]))
    torch.testing.assert_close(output.logits, expected, rtol=0, atol=1e-5)
    loss = F.cross_entropy(expected, torch.tensor([0, 1]))
    torch.testing.assert_close(output.loss, loss, rtol=0, atol=1e-5)
    names = set(load_file(folder / "model.safetensors"))
    assert not any(name.startswith(("encoder.lm_head.", *weights.TRANSITIONS)) for name in names)
    assert "entailment, not_entailment" in (folder / "README.md").read_text()
    assert_comes_back(path, folder, tmp_path, corpus)


def molecule_checkpoint(save_checkpoint, kind, names, mean, std, data="nowhere"):
    symbols = builders.dictionary(builders.ATOMS)
    info = PropertyInfo(kind, names, mean, std)
    return save_checkpoint(
        "exlm_base",
        {"_name": "molecule_property", "classification_head_name": "property"},
        {"_name": "molecule_property", "data": str(data)},
        symbols=symbols,
        heads=[("classification", "property", len(names))],
        task_state={"molecule_property": {**info.to_dict(), "symbols": symbols.symbols}},
    )


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_properties_of_molecules(kind, save_checkpoint, load, tmp_path):
    mean, std = ((-2.5, 310.0), (1.5, 40.0)) if kind == "regression" else ((0.0, 0.0), (1.0, 1.0))
    path = molecule_checkpoint(save_checkpoint, kind, ("logS", "melting point"), mean, std)
    folder = export(path, tmp_path / "solubility", licence="mit")
    model, tokenizer = load("AutoModelForSequenceClassification", folder), load("AutoTokenizer", folder)
    assert model.config.id2label == {0: "logS", 1: "melting point"}
    inputs = tokenizer(["CC(=O)N", "CCO"], return_tensors="pt", padding=True)
    expected = load_checkpoint(path).model(inputs["input_ids"], classification_head_name="property")[0]
    expected = expected * torch.tensor(std) + torch.tensor(mean)
    model.eval()
    torch.testing.assert_close(model(**inputs).logits, expected, rtol=1e-5, atol=1e-5)
    labels = torch.tensor([[1.0, float("nan")], [0.0, 1.0]])
    known = ~labels.isnan()
    loss = model(**inputs, labels=labels).loss
    function = F.mse_loss if kind == "regression" else F.binary_cross_entropy_with_logits
    torch.testing.assert_close(loss, function(expected[known], labels[known]), rtol=1e-5, atol=1e-5)
    card = (folder / "README.md").read_text()
    assert "license: mit" in card and "RDKit's canonical form" in card
    assert ("units of the training labels" in card) == (kind == "regression")
    assert_comes_back(path, folder, tmp_path)


@pytest.mark.parametrize("mean", [1234.4, -1030000030.0])
def test_values_far_from_zero(mean, save_checkpoint, tmp_path, caplog):
    """float16 would round the first by 0.4; float32, which rounds the second by up to 32, is warned of."""
    path = molecule_checkpoint(save_checkpoint, "regression", ("energy",), (mean,), (1.0,))
    folder = export(path, tmp_path / "half", half=True)
    [[(before, _)], [(after, _)]] = ([*load_model(model).predict("CCO")] for model in (path, folder))
    assert (abs(before - after).item() < 0.05) == (mean > 0)
    assert ("rounds values of energy" in caplog.text) == (mean < 0)


@torch.no_grad()
def test_answers_of_squad(save_checkpoint, corpus, load, tmp_path):
    path = save_checkpoint("exlm_base", "squad2", "squad2", heads=[("token", "span", 2)])
    expected, _ = load_checkpoint(path).model(TOKENS, token_head_name="span")
    folder = export(path, tmp_path / "export")
    model = load("AutoModelForQuestionAnswering", folder).eval()
    output = model(TOKENS, start_positions=torch.tensor([2, 0]), end_positions=torch.tensor([3, 99]))
    scores = torch.stack([output.start_logits, output.end_logits], -1)
    is_token = TOKENS != 1
    torch.testing.assert_close(scores[is_token], expected[is_token], rtol=0, atol=1e-5)
    start = F.cross_entropy(expected[..., 0], torch.tensor([2, 0]))
    end = -expected[0, :, 1].log_softmax(0)[3]  # the other is beyond the input
    torch.testing.assert_close(output.loss, (start + end) / 2, rtol=0, atol=1e-4)
    assert_comes_back(path, folder, tmp_path, corpus)


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


def test_what_cannot_be_exported(save_checkpoint, folders, checkpoints, corpus, tmp_path):
    heads = [("classification", "a", 2), ("classification", "b", 2)]
    two = save_checkpoint("mlm_tiny", "sentence_prediction", {"_name": "sentence_prediction"}, heads=heads)
    state, large = torch.load(checkpoints["mlm"], weights_only=False), tmp_path / "large.pt"
    state["model"]["encoder.lm_head.bias"][3] = 1e6  # more than float16 can hold
    torch.save(state, large)
    for path, folder, named in (
        (checkpoints["mlm"], folders["exlm"], str(folders["exlm"])),
        (two, tmp_path / "export", r"\['a', 'b'\]"),
        (large, tmp_path / "export", "encoder.lm_head.bias"),
    ):
        with pytest.raises((ValueError, FileExistsError), match=named):
            export(path, folder, data=corpus, half=True)
    assert not (tmp_path / "export").exists()


def test_script(checkpoints, folders, load, tmp_path):
    """Of all options; stored as float16, computed in float32."""
    (tmp_path / "notes.md").write_text("## Results\n\nNone yet.\n")
    options = ["--name", "small", "--pooling", "first", "--license", "mit", "--half"]
    folder = tmp_path / "half"
    arguments = [str(checkpoints["lattice"]), str(folder), *options, "--notes", str(tmp_path / "notes.md")]
    assert export_huggingface.main(arguments) == 0
    card = (folder / "README.md").read_text()
    assert "# small" in card and "mit" in card and card.endswith("\n\n## Results\n\nNone yet.\n")
    whole, half = (load_file(f / "model.safetensors") for f in (folders["lattice"], folder))
    assert whole.keys() == half.keys()
    assert all(torch.equal(half[name], value.half()) for name, value in whole.items())
    model = load("AutoModelForMaskedLM", folder)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(torch.equal(model.state_dict()[name], value.float()) for name, value in half.items())
