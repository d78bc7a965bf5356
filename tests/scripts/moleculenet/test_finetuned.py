"""A fine-tuning of two seeds: its metrics, and predictions of its checkpoints.

In one file, as what runs files on several workers would train for each.
"""

import json

import molecules as script
import numpy as np
import pytest

from fs_plugins.inference import load
from fs_plugins.metrics.properties import summarise
from tests.integration import commands
from tests.support.molecules import BAD, STREAM, molecules, read_csv


@pytest.mark.slow
def test_results_of_each_seed(finetuned):
    aucs = []
    for seed in (1, 2):
        folder = finetuned / f"seed-{seed}"
        result = json.loads((folder / "result.json").read_text())
        assert (result["seed"], result["task"], result["model"]) == (seed, "bbbp", "exlm_tiny")
        metrics, run = result["metrics"], commands.parse((folder / "train.log").read_text())
        best = max(run.values("auc", "valid"))  # that of the best checkpoint
        assert metrics["valid"]["auc"] == pytest.approx(best, abs=2e-6)
        for split in ("valid", "test"):
            rows = read_csv(folder / f"{split}.predictions.csv")
            table = {
                end: np.array(
                    [[float(row[name + end] or "nan") for name in ("ring", "other")] for row in rows]
                )
                for end in ("", " (label)")
            }
            expected = summarise(*table.values(), regression=False)
            assert {name: metrics[split][name] for name in expected} == pytest.approx(expected, abs=1e-9)
            assert metrics[split]["molecules"] == len(rows) == 10
        aucs.append(metrics["test"]["auc"])
        assert not (folder / "checkpoint_last.pt").exists() and (folder / "checkpoint_best.pt").exists()
    assert aucs[0] != aucs[1]


@pytest.mark.slow
def test_predictions_of_a_stream(finetuned, stream, tmp_path, capsys):
    checkpoint = finetuned / "seed-1" / "checkpoint_best.pt"
    script.main(["predict", str(checkpoint), str(stream), "--device", "cpu"])
    rows = read_csv(tmp_path / "molecules.predictions.csv")
    assert [row["smiles"] for row in rows] == STREAM
    for number, row in enumerate(rows, start=1):
        if number in BAD:
            assert row["ring"] == row["other"] == "" and BAD[number] in row["remark"]
        else:
            assert 0 < float(row["ring"]) < 1
    assert rows[6]["remark"] == "unknown tokens [Si]" and rows[0]["remark"] == ""
    assert {**rows[0], "id": ""} == {**rows[7], "id": ""}
    assert "8 molecules, 3 of them could not be read" in capsys.readouterr().out
    # plain text, a window of two molecules and batches of one give the same
    text = tmp_path / "molecules.smi"
    text.write_text("".join(f"{smiles} name-{i}\n" if smiles else "\n" for i, smiles in enumerate(STREAM)))
    output = tmp_path / "b.csv"
    flags = ["--device", "cpu", "--batch-tokens", "1", "--output", str(output)]
    script.main(["predict", str(checkpoint), str(text), *flags])
    for one, other in zip(rows, read_csv(output), strict=True):
        assert one["remark"] == other["remark"] and one["smiles"] == other["smiles"]
        if one["ring"]:
            assert float(one["ring"]) == pytest.approx(float(other["ring"]), abs=2e-6)
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.slow
def test_files_without_molecules(finetuned, tmp_path, refused):
    checkpoint = finetuned / "seed-1" / "checkpoint_best.pt"
    text = tmp_path / "set.txt"
    text.write_text("ethanol\nCCO ethanol\n")
    none = "none of 2 molecules could be read: see the remarks in"
    message = refused(script.main, "predict", checkpoint, text, "--device", "cpu")
    assert none in message and "set.predictions.csv" in message
    npy = ("--output", tmp_path / "m.npy")
    assert none in refused(script.main, "embed", checkpoint, text, "--device", "cpu", *npy)


@pytest.mark.slow
def test_predictions_are_those_of_the_evaluation(finetuned, tmp_path):
    folder = finetuned / "seed-2"
    evaluated = read_csv(folder / "test.predictions.csv")
    path = tmp_path / "test.smi"
    path.write_text("".join(row["smiles"] + "\n" for row in evaluated))
    script.main(["predict", str(folder / "checkpoint_best.pt"), str(path), "--device", "cpu"])
    for one, other in zip(evaluated, read_csv(tmp_path / "test.predictions.csv"), strict=True):
        for name in ("ring", "other"):
            assert float(one[name]) == pytest.approx(float(other[name]), abs=2e-6)


@pytest.mark.slow
def test_windows_keep_the_order(finetuned, monkeypatch):
    checkpoint = finetuned / "seed-1" / "checkpoint_best.pt"
    strings = molecules(40) + ["C("] + molecules(5)
    whole = list(load(checkpoint, device="cpu").predict(strings))
    taken = 0

    def counted():
        nonlocal taken
        for string in strings:
            taken += 1
            yield string

    monkeypatch.setattr("fs_plugins.inference.streaming.WINDOW", 7)
    results = load(checkpoint, device="cpu", batch_tokens=50).predict(counted())
    first = next(results)
    assert taken == 7  # no more is read than is needed
    for (one, remark), (other, same) in zip(whole, [first, *results], strict=True):
        assert remark == same
        assert one is None if other is None else np.allclose(one, other, atol=2e-6)


@pytest.mark.slow
def test_what_prediction_and_embedding_refuse(pretrained, finetuned, stream, tmp_path, refused):
    fine = finetuned / "seed-1" / "checkpoint_best.pt"
    (tmp_path / "cut.pt").write_bytes(fine.read_bytes()[:500])
    for what, argv, message in (
        ("predict", [pretrained[0]["mlm"], stream], "predicts no properties"),
        ("predict", [tmp_path / "cut.pt", stream], "cut.pt"),
    ):
        assert message in refused(script.main, what, *argv, "--device", "cpu")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.pt", "molecules.csv"]
