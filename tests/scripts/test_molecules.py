"""Molecules in, rows out: no row and no column is lost, and nothing is overwritten unasked."""

import csv
import json

import molecules as script
import numpy as np
import pandas as pd
import pytest
from lib.data import frames

from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.finetuning.moleculenet.metrics import summarise
from fs_plugins.huggingface.export import export
from fs_plugins.inference import Model, load
from tests.huggingface.test_export import molecule_checkpoint
from tests.integration import commands
from tests.support import builders, pages
from tests.support.molecules import labelled_molecules, molecules

# a file of molecules, and the lines that cannot be read
STREAM = ["CCO", "C(", "c1ccccc1", "", "C(C)(C)(C)(C)C", "NCCCCc1ccccc1", "C[Si]C", "CCO"]
BAD = {2: "not a SMILES", 4: "empty SMILES", 5: "valence"}
FLAGS = ("--max-epoch", 2, "--cpu", "--batch-size", 16, "--lr", "3e-3")


def test_predictions_stand_beside_the_whole_row(save_checkpoint, tmp_path):
    """Blank rows are none; a row with a cell too many is one that cannot be read; large values that differ
    little have as many digits as float64."""
    model = molecule_checkpoint(save_checkpoint, "regression", ("=p", "y"), (-1.03e9, 0.0), (0.02, 1.0))
    rows = ["x,C,CCO", "x, y,C,CCO", "", ",,", "C", "x,C,CCN,", " , ,", "x,\u00e9,CCC"]
    path = builders.write_file(tmp_path / "a.csv.gz", "\n".join(["y,y (predicted),smiles", *rows]))
    call("predict", model, path)
    [(first, _), (second, _), (third, _)] = load(model, device="cpu").predict(["CCO", "CCN", "CCC"])
    header, *found = csv.reader((tmp_path / "a.predictions.csv").read_text().splitlines())
    assert header == ["y", "y (predicted)", "smiles", "'=p", "y (predicted) (predicted)", "remark"]
    for cells, values in zip(([*found[0]], [*found[3]], [*found[4]]), (first, second, third), strict=True):
        assert cells[3:5] == [f"{value:.15g}" for value in values]
    assert ["|".join(row[:3]) for row in found[::2]] == ["x|C|CCO", "C||", "x|\u00e9|CCC"]
    assert len({row[3] for row in found}) == 4  # three values, and none
    assert found[1][3:5] == found[2][3:5] == ["", ""] and "4 cells, the header has 3" in found[1][0]


def call(what, *words) -> None:
    assert script.main([what, *map(str, words), "--device", "cpu"]) == 0


@pytest.mark.parametrize("what", ["predict", "embed"])
def test_a_stream_and_its_rows_so_far(what, save_checkpoint, tmp_path, monkeypatch, capsys, refused):
    """Each as if it were alone."""
    path = molecule_checkpoint(save_checkpoint, "regression", ("y",), (0.0,), (1.0,))
    stream = builders.write_file(tmp_path / "set.csv", "smiles,id\n" + "".join(f"{s},x\n" for s in STREAM))
    monkeypatch.setattr(script, "PART", 3)
    words = (what, path, stream, "--pooling", "first", "--device", "cpu")
    call(*words)
    assert "--overwrite" in refused(script.main, *words)
    output, inner = tmp_path / f"set{script.ENDINGS[what]}", getattr(Model, what)
    whole, calls = output.read_bytes(), []

    def interrupted(*args, **options):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return inner(*args, **options)

    monkeypatch.setattr(Model, what, interrupted)
    assert script.main([*map(str, words), "--overwrite"]) == 130
    assert "6 molecules" in capsys.readouterr().out
    if what == "embed":
        first, all_of_them = np.load(output), np.frombuffer(whole[128:], "<f4").reshape(8, -1)
        assert first.shape == (6, 32) and np.array_equal(first, all_of_them[:6], equal_nan=True)
        monkeypatch.undo()
        for number, (smiles, vector) in enumerate(zip(STREAM, all_of_them, strict=True), start=1):
            [(alone, _)] = load(path, device="cpu").embed([smiles], "first")
            assert (alone is None) == (number in BAD)
            np.testing.assert_allclose(vector, np.full(32, np.nan) if alone is None else alone, atol=2e-5)
        remarks = (tmp_path / "set.npy.remarks.tsv").read_text().splitlines()[1:]
        assert [line.split("\t")[:2] for line in remarks] == [[str(n), str(n + 1)] for n in (2, 4, 5)]
    else:
        reasons = {**BAD, 7: "unknown tokens [Si]"}
        for number, row in enumerate(pd.read_csv(output, dtype=str, na_filter=False).itertuples(), start=1):
            assert row.smiles == STREAM[number - 1] and reasons.get(number, "") in row.remark
            assert bool(row.remark) == (number in reasons) and bool(row.y) == (number not in BAD)
        part = output.read_bytes()
        assert len(part.splitlines()) == 7 and whole.startswith(part)


def test_rows_before_a_line_that_is_no_csv(save_checkpoint, tmp_path, monkeypatch, refused):
    path, rows = molecule_checkpoint(save_checkpoint, "regression", ("y",), (0.0,), (1.0,)), "CCO\nCN\n"
    table = builders.write_file(tmp_path / "a.csv", f'smiles\n{rows}"C"x\n')
    monkeypatch.setattr(frames, "ROWS", 1)
    assert "a.csv, line 4: " in refused(script.main, "embed", path, table, "--device", "cpu")
    assert np.load(tmp_path / "a.npy").shape == (2, 32)


# the columns of labels, and the metric that chooses the best epoch
LABELS = {"classification": ["ring", "other"], "regression": ["c", "energy"]}
BEST = {"classification": ("auc", max), "regression": ("scaled_rmse", min)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LABELS)
def test_from_a_table_to_predictions(kind, save_checkpoint, tmp_path):
    """Metrics are those of the predictions, which checkpoint and export repeat; units may differ."""
    symbols = sorted({token for one in molecules(100) for token in tokenize(one)})
    builders.write_dictionary(tmp_path, symbols)
    model = save_checkpoint("exlm_tiny", symbols=builders.dictionary(symbols), data=tmp_path)
    labels, run = LABELS[kind], tmp_path / "run"
    data = labelled_molecules(tmp_path, 100, tmp_path, "mine", labels, "--kind", kind)
    pages.run("finetune_moleculenet", "mine", model, data, run, "--seed", 2, *FLAGS)
    result, (metric, best) = json.loads((run / "result.json").read_text()), BEST[kind]
    assert [result[name] for name in ("seed", "task", "metric")] == [2, "mine", metric]
    logged = commands.Run((run / "train.log").read_text()).values(metric, "valid")
    assert result["metrics"]["valid"][metric] == pytest.approx(best(logged), abs=2e-6)
    std = json.loads((data / "molecules.json").read_text())["std"]
    for split in ("valid", "test"):
        found = pd.read_csv(run / f"{split}.predictions.csv")
        values, truth = found[labels].to_numpy(), found[[f"{name} (label)" for name in labels]].to_numpy()
        expected, metrics = summarise(values, truth, kind, std, 0.5), result["metrics"][split]
        assert {name: metrics[name] for name in expected} == pytest.approx(expected, abs=1e-9)
        assert metrics["molecules"] == len(found) == 10
    assert [path.name for path in run.glob("*.pt")] == ["checkpoint_best.pt"]
    smiles = builders.write_file(tmp_path / "a.smi", "\n".join(found["smiles"]))
    for start in (run / "checkpoint_best.pt", export(run / "checkpoint_best.pt", tmp_path / "exported")):
        call("predict", start, smiles, "--overwrite")
        again = pd.read_csv(tmp_path / "a.predictions.csv")[labels]
        np.testing.assert_allclose(again, values, rtol=1e-6, atol=1e-5)
