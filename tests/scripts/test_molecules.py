"""Molecules in, rows out: no row and no column is lost, and nothing is overwritten unasked."""

import csv
import json

import molecules as script
import numpy as np
import prepare_moleculenet
import pytest
import torch
from lib.data.molecules import header_of, records_in
from lib.data.tables import TableFormat

from fs_plugins.checkpoint import load_checkpoint
from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.huggingface.export import export
from fs_plugins.inference import load
from fs_plugins.metrics.properties import summarise
from tests.huggingface.test_export import molecule_checkpoint
from tests.integration import commands
from tests.support import builders, pages
from tests.support.builders import write_file
from tests.support.molecules import labelled_molecules, molecules, numbers, read_csv

FORM = TableFormat()
# a file of molecules, and the lines that cannot be read
STREAM = ["CCO", "C(", "c1ccccc1", "", "C(C)(C)(C)(C)C", "NCCCCc1ccccc1", "C[Si]C", "CCO"]
BAD = {2: "not a SMILES", 4: "empty SMILES", 5: "valence"}
FLAGS = ("--max-epoch", 2, "--cpu", "--batch-size", 16, "--lr", "3e-3")


def test_predictions_stand_beside_the_whole_row(tmp_path):
    rows = ["x,C,CCO", "x, y,C,CCO", "", "C", "x,C,CCN,", "x,\u00e9,CCC"]
    content = "\n".join(["y,remark,smiles", *rows]).encode("latin-1")
    path, good = write_file(tmp_path / "a.csv.gz", content), ([1.0, 2.5], "")
    found = [good, (None, "empty SMILES"), (None, "empty SMILES"), (None, ""), good, ([0.5, 0.25], "unknown")]
    rows, out = zip(records_in(path, FORM), found, strict=True), tmp_path / "out.csv"
    assert script.predict(out, header_of(path, FORM), rows, ("=p", "y")) == {True: 3, False: 3}
    cells = "cells, but the header has 3"
    assert list(csv.reader(out.read_text("latin-1").splitlines())) == [
        ["y", "remark", "smiles", "'=p", "y (predicted)", "remark (predicted)"],
        ["x", "C", "CCO", "1", "2.5", ""],
        ["x", " y", "C", "", "", f"4 {cells}: CCO; wrong number of cells: 4, but the header has 3"],
        ["", "", "", "", "", "empty SMILES"],
        ["C", "", "", "", "", "wrong number of cells: 1, but the header has 3"],
        ["x", "C", "CCN", "1", "2.5", ""],
        ["x", "\u00e9", "CCC", "0.5", "0.25", "unknown"],  # the bytes of the input
    ]


@pytest.fixture(scope="module")
def checkpoint(save_checkpoint, tmp_path_factory):
    """checkpoint(arch) -> the file of a model of molecules."""
    folder = tmp_path_factory.mktemp("dictionary")
    texts = [*molecules(60), "[nH]1cccc1", "C/C=C\\C"]
    symbols = builders.dictionary(sorted({token for one in texts for token in tokenize(one)}))
    builders.write_dictionary(folder, symbols.symbols[symbols.nspecial :])
    return lambda arch: save_checkpoint(arch, symbols=symbols, data=folder)


@pytest.fixture(scope="module")
def finetuned(checkpoint, tmp_path_factory):
    """The folder of a fine-tuning on the properties of labelled_molecules."""
    folder, model = tmp_path_factory.mktemp("finetuned"), checkpoint("exlm_tiny")
    dictionary = load_checkpoint(model, device="cpu").dictionary
    builders.write_dictionary(folder, dictionary.symbols[dictionary.nspecial :])
    data = labelled_molecules(folder, 100, folder / "dict.txt")
    pages.run("finetune_moleculenet", "bbbp", model, data, folder / "run", "--seed", 2, *FLAGS)
    return folder / "run"


def call(what, *words) -> None:
    assert script.main([what, *map(str, words), "--device", "cpu"]) == 0


@pytest.mark.parametrize("arch", ["exlm_tiny", "mlm_tiny"])
def test_embeddings_against_each_molecule_alone(checkpoint, tmp_path, refused, arch):
    path, out = checkpoint(arch), tmp_path / "a.npy"
    stream = write_file(tmp_path / "set.smi", "".join(f"{smiles}\n" for smiles in STREAM))
    for pooling in ("first", "mean"):
        call("embed", path, stream, "--output", out, "--overwrite", "--pooling", pooling)
        found = np.load(out)
        assert found.shape == (8, 32) and found.dtype == np.float32
        for number, (smiles, vector) in enumerate(zip(STREAM, found, strict=True), start=1):
            [(alone, _)] = load(path, device="cpu").embed([smiles], pooling)
            assert (alone is None) == (number in BAD)
            np.testing.assert_allclose(vector, np.full(32, np.nan) if alone is None else alone, atol=2e-5)
        remarks = (tmp_path / "a.npy.remarks.tsv").read_text().splitlines()[1:]
        assert [int(line.split("\t")[0]) for line in remarks] == [2, 4, 5, 7]
    call("embed", path, stream)  # beside the molecules
    assert np.load(tmp_path / "set.npy").shape == (8, 32)
    assert "--overwrite" in refused(script.main, "embed", path, stream, "--device", "cpu")


@pytest.mark.slow
def test_results_and_their_predictions_again(finetuned, tmp_path):
    result = json.loads((finetuned / "result.json").read_text())
    assert (result["seed"], result["task"], result["model"]) == (2, "bbbp", "exlm_tiny")
    metrics, run = result["metrics"], commands.parse((finetuned / "train.log").read_text())
    best = max(run.values("auc", "valid"))  # that of the best checkpoint
    assert metrics["valid"]["auc"] == pytest.approx(best, abs=2e-6)
    for split in ("valid", "test"):
        rows = read_csv(finetuned / f"{split}.predictions.csv")
        expected = summarise(numbers(rows), numbers(rows, " (label)"), "classification", [1.0, 1.0], 0.5)
        assert {name: metrics[split][name] for name in expected} == pytest.approx(expected, abs=1e-9)
        assert metrics[split]["molecules"] == len(rows) == 10
    assert [path.name for path in finetuned.glob("*.pt")] == ["checkpoint_best.pt"]
    path = write_file(tmp_path / "test.smi", "".join(row["smiles"] + "\n" for row in rows))
    call("predict", finetuned / "checkpoint_best.pt", path)
    again = read_csv(tmp_path / "test.predictions.csv")
    np.testing.assert_allclose(numbers(again), numbers(rows), atol=2e-6)


def test_large_values_that_differ_little_and_several_models(save_checkpoint, tmp_path):
    """To as many digits as float64 has; the mean of several models, and how far they differ."""
    paths, found = [], []
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        paths.append(molecule_checkpoint(save_checkpoint, "regression", ("energy",), (-1.03e9,), (0.02,)))
        state = torch.load(paths[-1], weights_only=False)
        state["model"]["classification_heads.property.out_proj.weight"].normal_()
        paths[-1] = tmp_path / f"{seed}.pt"
        torch.save(state, paths[-1])
        found.append([row[0] for row, _ in load(paths[-1], device="cpu").predict(["CCO", "CCN", "C", "N"])])
    found = np.array(found)
    assert found.dtype == np.float64 and len({*found[0].tolist()}) == 4
    table = write_file(tmp_path / "a.csv", "smiles\nCCO\nCCN\nC\nN\nx\n")
    call("predict", paths[0], table)
    rows = read_csv(tmp_path / "a.predictions.csv")
    assert [row["energy"] for row in rows] == [*(f"{x:.15g}" for x in found[0]), ""]
    assert len({row["energy"] for row in rows}) == 5
    call("predict", *paths, table, "--overwrite")
    rows = read_csv(tmp_path / "a.predictions.csv")
    assert [row["energy"] for row in rows] == [*(f"{x:.15g}" for x in found.mean(0)), ""]
    assert [row["energy (std)"] for row in rows] == [*(f"{x:.15g}" for x in found.std(0, ddof=1)), ""]
    assert rows[4]["remark"] == "not a SMILES string"


@pytest.mark.slow
def test_predictions_of_a_stream(finetuned, tmp_path, capsys):
    checkpoint = finetuned / "checkpoint_best.pt"
    lines = [f"{i},{smiles}\n" for i, smiles in enumerate(STREAM)]
    table = write_file(tmp_path / "c.csv", "smiles,id\nCCO,a, b\n")
    call("predict", checkpoint, table)
    assert read_csv(tmp_path / "c.predictions.csv")[0]["remark"] == "3 cells, but the header has 2:  b"
    call("predict", checkpoint, write_file(tmp_path / "a.csv", "".join(["id,smiles\n", *lines])))
    rows = read_csv(tmp_path / "a.predictions.csv")
    assert [row["smiles"] for row in rows] == STREAM
    for number, row in enumerate(rows, start=1):
        if number in BAD:
            assert row["ring"] == row["other"] == "" and BAD[number] in row["remark"]
        else:
            assert 0 < float(row["ring"]) < 1
    assert rows[6]["remark"] == "unknown tokens [Si]" and rows[0]["remark"] == ""
    assert {**rows[0], "id": ""} == {**rows[7], "id": ""}
    assert "8 molecules, 3 of them could not be read" in capsys.readouterr().out
    # plain text and batches of one give the same
    lines = [f"{smiles} name-{i}\n" if smiles else "\n" for i, smiles in enumerate(STREAM)]
    text = write_file(tmp_path / "b.smi", "".join(lines))
    call("predict", checkpoint, text, "--batch-tokens", "1")
    others = read_csv(tmp_path / "b.predictions.csv")
    assert [row["remark"] for row in others] == [row["remark"] for row in rows]
    np.testing.assert_allclose(numbers(others), numbers(rows), atol=2e-6)
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["multiclass", "regression"])
def test_classes_and_values_of_different_units_from_table_to_prediction(kind, checkpoint, tmp_path):
    model, table = checkpoint("exlm_tiny"), tmp_path / "set.csv"
    dictionary = load_checkpoint(model, device="cpu").dictionary
    builders.write_dictionary(tmp_path, dictionary.symbols[dictionary.nspecial :])
    rows = [f"{s},{s.count('C') % 3},{-5e4 + 10 * len(s)}" for s in molecules(100)]
    write_file(table, "\n".join(["smiles,c,energy", *rows]) + "\n")
    chosen = ["--label-columns", "c", *(["energy"] if kind == "regression" else [])]
    words = ["mine", table, tmp_path / "bin", "--dictionary", tmp_path, "--kind", kind, "--split", "random"]
    assert prepare_moleculenet.main([*map(str, [*words, *chosen])]) == 0
    pages.run("finetune_moleculenet", "mine", model, tmp_path / "bin", tmp_path / "run", *FLAGS)
    result, log = json.loads((tmp_path / "run/result.json").read_text()), tmp_path / "run/train.log"
    best = {"multiclass": ("mcc", max), "regression": ("scaled_rmse", min)}[kind]
    assert result["metric"] == best[0]
    logged = commands.parse(log.read_text()).values(best[0], "valid")
    assert result["metrics"]["valid"][best[0]] == pytest.approx(best[1](logged), abs=2e-6)
    found = read_csv(tmp_path / "run/test.predictions.csv")
    names = {"multiclass": ["c 0", "c 1", "c 2"], "regression": ["c", "energy"]}[kind]
    values = numbers(found, names=names)
    test = result["metrics"]["test"]
    if kind == "multiclass":
        np.testing.assert_allclose(values.sum(1), 1, atol=1e-6)
        hits = values.argmax(1) == numbers(found, " (label)", ["c"])[:, 0]
        assert test["accuracy"] == test["properties"]["c"]["accuracy"] == hits.mean()
    else:
        errors = values - numbers(found, " (label)", names)
        std = json.loads((tmp_path / "bin/molecules.json").read_text())["std"]
        assert test["scaled_rmse"] == pytest.approx(np.mean(np.sqrt((errors**2).mean(0)) / std), rel=1e-6)
        assert test["properties"]["energy"]["rmse"] == pytest.approx(np.sqrt((errors[:, 1] ** 2).mean()))
    smiles = write_file(tmp_path / "a.smi", "".join(row["smiles"] + "\n" for row in found))
    for start in (
        tmp_path / "run/checkpoint_best.pt",
        export(tmp_path / "run/checkpoint_best.pt", tmp_path / "e"),
    ):
        call("predict", start, smiles, "--overwrite")
        again = numbers(read_csv(tmp_path / "a.predictions.csv"), names=names)
        np.testing.assert_allclose(again, values, rtol=1e-6, atol=1e-5)


def test_what_is_refused(checkpoint, tmp_path, refused):
    model = checkpoint("mlm_tiny")
    good, bad = (write_file(tmp_path / f"{text}.txt", f"{text}\n") for text in ("CCO", "ethanol"))
    assert "predicts no properties" in refused(script.main, "predict", model, good, "--device", "cpu")
    assert not list(tmp_path.glob("CCO.*[!t]"))
    said = refused(script.main, "embed", model, bad, "--device", "cpu")
    assert "ethanol.npy.remarks.tsv" in said  # has the reasons
