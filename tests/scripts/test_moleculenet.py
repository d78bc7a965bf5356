"""Fine-tuning, evaluation, prediction and embedding, from a tiny pre-trained checkpoint to the table."""

import csv
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import baseline_moleculenet
import embed_molecules
import numpy as np
import predict_molecules
import prepare_moleculenet
import pytest
import torch
from finetuning.checkpoints import CheckpointError
from moleculenet import plan
from sklearn.metrics import roc_auc_score

from fs_plugins.analysis.checkpoint import load_checkpoint
from fs_plugins.analysis.molecules import MoleculeModel
from fs_plugins.data.smiles_tokens import tokenize
from tests.integration import commands
from tests.integration.conftest import binarise

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "finetune_moleculenet.sh"
RINGS = ["c1ccccc1", "C1CCCCC1", "C1CCNCC1", "c1ccncc1", "C1CC1", "C1CCC1", "c1ccoc1", "c1ccsc1"]
ENDS = ["O", "N", "Cl", "Br", "F", "C(=O)O", "C#N", "S"]


def molecules(count):
    rng = random.Random(1)
    found = {}
    while len(found) < count:
        smiles = rng.choice(ENDS[:5]) + "C" * rng.randint(0, 6) + rng.choice(RINGS)
        found.setdefault(smiles)
    return list(found)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """{"exlm": checkpoint, "mlm": checkpoint} after two updates, and the folder of their dictionary."""
    folder = tmp_path_factory.mktemp("pretrained")
    text = "".join(" ".join(tokenize(smiles)) + "\n" for smiles in molecules(60) + ["[nH]1cccc1", "C/C=C\\C"])
    data = binarise(folder, {"train": text})
    checkpoints = {}
    for kind, criterion in (("exlm", "nat_dag_loss_mlm"), ("mlm", "masked_lm")):
        save = folder / kind
        flags = ("--sample-break-mode", "eos", "--max-positions", 128, "--max-update", 2)
        commands.train(*commands.pretraining(data, save, *flags, arch=f"{kind}_tiny", criterion=criterion))
        checkpoints[kind] = save / "checkpoint_last.pt"
    return checkpoints, data


@pytest.fixture(scope="module")
def data(pretrained, tmp_path_factory):
    """100 molecules: whether there is a hetero-aromatic ring, and a second property with missing labels."""
    folder = tmp_path_factory.mktemp("data")
    rows = []
    for i, smiles in enumerate(molecules(100)):
        rows.append(f"{smiles},{int('n' in smiles or 'c1cco' in smiles)},{'' if i % 3 else i % 2}")
    (folder / "set.csv").write_text("smiles,ring,other\n" + "\n".join(rows) + "\n")
    argv = ["bbbp", folder / "set.csv", folder / "bin", "--dict", pretrained[1], "--label-columns"]
    prepare_moleculenet.main(list(map(str, [*argv, "ring", "other", "--split", "random"])))
    return folder / "bin"


def finetune(*arguments):
    environment = {**os.environ, "EXLM_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    command = ["bash", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def finetuned(pretrained, data, tmp_path_factory):
    """The folder of a fine-tuning of the ExLM with two seeds."""
    save = tmp_path_factory.mktemp("finetuned")
    flags = ("--seeds", "1 2", "--epochs", 2, "--cpu", "--batch-size", 16, "--lr", "3e-3")
    result = finetune("bbbp", pretrained[0]["exlm"], data, save, *flags)
    assert result.returncode == 0, result.stderr + result.stdout
    return save


def last(words, flag):
    return words[len(words) - words[::-1].index(flag)]


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


TABLE_8 = {
    "bace": ("60", "64", "1e-4", 0.06, "0.1", "0.2"),
    "bbbp": ("40", "128", "4e-4", 0.06, "0.1", "0.1"),
    "tox21": ("80", "128", "1e-4", 0.06, "0.1", "0.1"),
    "sider": ("100", "32", "5e-4", 0.4, "0.1", "0"),
    "muv": ("40", "128", "2e-5", 0.2, "0.1", "0.1"),
    "clintox": ("100", "256", "5e-5", 0.1, "0.1", "0.5"),
    "toxcast": ("80", "64", "1e-4", 0.06, "0.1", "0.1"),
}


@pytest.mark.slow
def test_hyper_parameters_are_table_8(pretrained, data):
    dataset = "sider"
    result = finetune(dataset, pretrained[0]["exlm"], data, "save", "--print", "--cpu")
    commands_shown = [line.split() for line in result.stdout.splitlines()]
    assert [last(words, "--seed") for words in commands_shown] == ["1", "2", "3"]
    words = commands_shown[0]
    epochs, batch, lr, ratio, dropout, pooler = TABLE_8[dataset]
    names = ("--max-epoch", "--batch-size", "--lr", "--dropout", "--pooler-dropout")
    assert [last(words, name) for name in names] == [epochs, batch, lr, dropout, pooler]
    updates = int(epochs) * -(-80 // int(batch))
    assert int(last(words, "--total-num-update")) == updates
    assert int(last(words, "--warmup-updates")) == int(ratio * updates)
    assert "--warmup-ratio" not in words
    assert last(words, "--arch") == "exlm_tiny" and last(words, "--encoder-embed-dim") == "32"
    assert last(words, "--max-positions") == "128"
    assert last(words, "--finetune-from-model") == str(pretrained[0]["exlm"])
    scratch = finetune(dataset, pretrained[0]["exlm"], data, "save", "--print", "--cpu", "--scratch")
    assert "--finetune-from-model" not in scratch.stdout and "--encoder-embed-dim 32" in scratch.stdout


@pytest.mark.parametrize("dataset", sorted(TABLE_8))
def test_flag_files_are_table_8(dataset):
    lines = (ROOT / "configs/finetune/table8" / f"{dataset}.flags").read_text().splitlines()
    flags = dict(line.split() for line in lines if not line.startswith("#"))
    names = ("--max-epoch", "--batch-size", "--lr", "--warmup-ratio", "--dropout", "--pooler-dropout")
    assert tuple(flags[name] for name in names) == tuple(map(str, TABLE_8[dataset]))
    assert set(flags) == set(names)


@pytest.mark.slow
def test_results_of_each_seed(finetuned, data):
    aucs = []
    for seed in (1, 2):
        folder = finetuned / f"seed-{seed}"
        metrics = json.loads((folder / "metrics.json").read_text())
        assert (metrics["seed"], metrics["dataset"], metrics["model"]) == (seed, "bbbp", "exlm_tiny")
        best = 0.0
        for line in (folder / "train.log").read_text().splitlines():
            if "| valid |" in line and '"valid_auc"' in line:
                best = max(best, float(json.loads(line.split(" | ", 3)[3])["valid_auc"]))
        assert metrics["valid"]["auc"] == pytest.approx(best, abs=2e-6)  # that of the best checkpoint
        for split in ("valid", "test"):
            rows = read_csv(folder / f"{split}.predictions.csv")
            scores = []
            for name in ("ring", "other"):
                labelled = [row for row in rows if row[f"{name} (label)"] != ""]
                truth = [int(row[f"{name} (label)"]) for row in labelled]
                found = metrics[split]["properties"][name]["auc"]
                if len(set(truth)) == 2:
                    scores.append(roc_auc_score(truth, [float(row[name]) for row in labelled]))
                    assert found == pytest.approx(scores[-1], abs=1e-9)
                else:
                    assert found is None
            assert metrics[split]["scored_properties"] == len(scores) > 0
            assert metrics[split]["auc"] == pytest.approx(np.mean(scores), abs=1e-9)
            assert metrics[split]["molecules"] == len(rows) == 10
        aucs.append(metrics["test"]["auc"])
        assert not (folder / "checkpoint_last.pt").exists() and (folder / "checkpoint_best.pt").exists()
    assert aucs[0] != aucs[1]


@pytest.mark.slow
def test_finished_seeds_are_skipped_and_other_settings_refused(finetuned, pretrained, data):
    flags = ("--seeds", "1 2", "--epochs", 2, "--cpu", "--batch-size", 16, "--lr", "3e-3")
    before = (finetuned / "seed-1" / "metrics.json").stat().st_mtime_ns
    again = finetune("bbbp", pretrained[0]["exlm"], data, finetuned, *flags)
    assert again.returncode == 0 and again.stdout.count("finished before") == 2
    assert (finetuned / "seed-1" / "metrics.json").stat().st_mtime_ns == before
    other = finetune("bbbp", pretrained[0]["exlm"], data, finetuned, *flags, "--dropout", "0.3")
    assert other.returncode == 2 and "a run of other settings" in other.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: "esol"}, "unknown dataset 'esol': there are bace bbbp"),
        ({1: "no.pt"}, "the checkpoint no.pt is not there"),
        ({2: "nowhere"}, "nowhere/molecules.json is not there: DATA is a folder made by"),
        ({4: "--seeds", 5: "one"}, "--seeds 'one': give whole numbers"),
        ({4: "--epochs", 5: "0"}, "--epochs '0': give a whole number"),
        ({4: "--seed", 5: "1"}, "--seed is set by this script"),
        ({4: "--epochs"}, "--epochs needs a value"),
    ],
)
def test_what_the_script_refuses(pretrained, data, change, message):
    arguments = {0: "bbbp", 1: pretrained[0]["exlm"], 2: data, 3: "save", **change}
    result = finetune(*arguments.values())
    assert result.returncode == 2 and message in result.stderr


def test_another_dictionary_is_refused(pretrained, data, tmp_path):
    other = tmp_path / "data"
    other.mkdir()
    for path in data.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    lines = (other / "dict.txt").read_text().splitlines(keepends=True)
    (other / "dict.txt").write_text("".join(lines[::-1]))
    with pytest.raises(
        CheckpointError, match="line 1: .* where the checkpoint's dictionary .* has .* as long"
    ):
        plan.plan(pretrained[0]["exlm"], other)
    rows, metric, flags, warnings = plan.plan(pretrained[0]["mlm"], data)
    assert (rows, metric, flags[:2], warnings) == (80, "auc", ["--arch", "mlm_tiny"], [])


BAD = {2: "not a SMILES", 4: "empty SMILES", 5: "valence"}
STREAM = ["CCO", "C(", "c1ccccc1", "", "C(C)(C)(C)(C)C", "NCCCCc1ccccc1", "C[Si]C", "CCO"]


@pytest.fixture
def stream(tmp_path):
    path = tmp_path / "molecules.csv"
    path.write_text("id,smiles\n" + "".join(f"{i},{smiles}\n" for i, smiles in enumerate(STREAM)))
    return path


def test_predictions_of_a_stream(finetuned, stream, tmp_path, capsys):
    checkpoint = finetuned / "seed-1" / "checkpoint_best.pt"
    predict_molecules.main([str(checkpoint), str(stream), "--device", "cpu"])
    rows = read_csv(tmp_path / "molecules.predictions.csv")
    assert [row["smiles"] for row in rows] == STREAM
    for number, row in enumerate(rows, start=1):
        if number in BAD:
            assert row["ring"] == row["other"] == "" and BAD[number] in row["remark"]
        else:
            assert 0 < float(row["ring"]) < 1
    assert rows[6]["remark"] == "unknown tokens [Si]" and rows[0]["remark"] == ""
    assert rows[0] == rows[7]
    assert "8 molecules, 3 of them could not be read" in capsys.readouterr().out
    # plain text, a window of two molecules and batches of one give the same
    text = tmp_path / "molecules.smi"
    text.write_text("".join(f"{smiles} name-{i}\n" if smiles else "\n" for i, smiles in enumerate(STREAM)))
    output = tmp_path / "b.csv"
    flags = ["--device", "cpu", "--batch-tokens", "1", "--output", str(output)]
    predict_molecules.main([str(checkpoint), str(text), *flags])
    for one, other in zip(rows, read_csv(output), strict=True):
        assert one["remark"] == other["remark"] and one["smiles"] == other["smiles"]
        if one["ring"]:
            assert float(one["ring"]) == pytest.approx(float(other["ring"]), abs=2e-6)
    assert not list(tmp_path.glob("*.partial"))


def test_predictions_are_those_of_the_evaluation(finetuned, tmp_path):
    folder = finetuned / "seed-2"
    evaluated = read_csv(folder / "test.predictions.csv")
    path = tmp_path / "test.smi"
    path.write_text("".join(row["smiles"] + "\n" for row in evaluated))
    predict_molecules.main([str(folder / "checkpoint_best.pt"), str(path), "--device", "cpu"])
    for one, other in zip(evaluated, read_csv(tmp_path / "test.predictions.csv"), strict=True):
        for name in ("ring", "other"):
            assert float(one[name]) == pytest.approx(float(other[name]), abs=2e-6)


@pytest.mark.parametrize("kind", ["exlm", "mlm"])
def test_embeddings_against_each_molecule_alone(pretrained, stream, tmp_path, kind):
    checkpoint = pretrained[0][kind]
    loaded = load_checkpoint(checkpoint, device="cpu")
    for pooling in ("first", "mean"):
        out = tmp_path / f"{pooling}.npy"
        argv = [str(checkpoint), str(stream), "--output", str(out), "--pooling", pooling, "--device", "cpu"]
        embed_molecules.main(argv)
        found = np.load(out)
        assert found.shape == (8, 32) and found.dtype == np.float32
        for number, (smiles, vector) in enumerate(zip(STREAM, found, strict=True), start=1):
            if number in BAD:
                assert np.isnan(vector).all()
                continue
            words = [loaded.dictionary.index(token) for token in tokenize(smiles)]
            tokens = torch.tensor([[0, *words, 2]])
            with torch.no_grad():
                states = loaded.model(tokens, features_only=True)[0][0]
            k = (states.shape[0] - len(words)) // 2  # states of <s> and of </s>
            wanted = states[0] if pooling == "first" else states[k:-k].mean(0)
            np.testing.assert_allclose(vector, wanted.numpy(), atol=2e-5)
        remarks = (tmp_path / f"{pooling}.npy.remarks.tsv").read_text().splitlines()[1:]
        assert [int(line.split("\t")[0]) for line in remarks] == [2, 4, 5, 7]


def test_windows_keep_the_order(finetuned):
    loaded = load_checkpoint(finetuned / "seed-1" / "checkpoint_best.pt", device="cpu")
    strings = molecules(40) + ["C("] + molecules(5)
    whole = list(MoleculeModel(loaded).predict(strings))
    taken = 0

    def counted():
        nonlocal taken
        for string in strings:
            taken += 1
            yield string

    results = MoleculeModel(loaded, window=7, batch_tokens=50).predict(counted())
    first = next(results)
    assert taken == 7  # no more is read than is needed
    for (one, remark), (other, same) in zip(whole, [first, *results], strict=True):
        assert remark == same
        assert one is None if other is None else np.allclose(one, other, atol=2e-6)


def test_what_prediction_and_embedding_refuse(pretrained, finetuned, stream, tmp_path):
    fine = str(finetuned / "seed-1" / "checkpoint_best.pt")
    for script, argv, message in (
        (predict_molecules, [str(pretrained[0]["mlm"]), str(stream)], "predicts no properties"),
        (
            predict_molecules,
            [fine, str(stream), "--smiles-column", "mol"],
            "no column 'mol'",
        ),
        (predict_molecules, [fine, str(tmp_path / "no.csv")], "is not there"),
        (predict_molecules, [fine, str(stream), "--output", str(stream)], "is the file of the molecules"),
        (predict_molecules, [str(tmp_path / "no.pt"), str(stream)], "no.pt is not there"),
        (
            embed_molecules,
            [fine, str(stream), "--output", str(tmp_path / "a.csv")],
            "end in .npy or .parquet",
        ),
    ):
        with pytest.raises(SystemExit, match=message):
            script.main([*argv, "--device", "cpu"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["molecules.csv"]


def test_parquet(pretrained, stream, tmp_path, monkeypatch):
    argv = [
        str(pretrained[0]["exlm"]),
        str(stream),
        "--output",
        str(tmp_path / "m.parquet"),
        "--device",
        "cpu",
    ]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        patch.setitem(sys.modules, "pyarrow.parquet", None)
        with pytest.raises(SystemExit, match="needs pyarrow"):
            embed_molecules.main(argv)
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    embed_molecules.main(argv)
    embed_molecules.main([*argv[:3], str(tmp_path / "m.npy"), *argv[4:]])
    table = parquet.read_table(tmp_path / "m.parquet").to_pydict()
    assert table["smiles"] == STREAM
    for vector, wanted in zip(table["embedding"], np.load(tmp_path / "m.npy"), strict=True):
        assert np.isnan(wanted).all() if vector is None else np.allclose(vector, wanted)


def test_forest_learns_what_a_ring_is(data, tmp_path, capsys):
    argv = [str(data), str(tmp_path / "rf"), "--trees", "30", "--seeds", "1", "2"]
    baseline_moleculenet.main(argv)
    metrics = json.loads((tmp_path / "rf/seed-1/metrics.json").read_text())
    assert metrics["test"]["properties"]["ring"]["auc"] > 0.9
    rows = read_csv(tmp_path / "rf/seed-1/test.predictions.csv")
    truth = [int(row["ring (label)"]) for row in rows]
    expected = roc_auc_score(truth, [float(row["ring"]) for row in rows])
    assert metrics["test"]["properties"]["ring"]["auc"] == pytest.approx(expected)
    capsys.readouterr()
    baseline_moleculenet.main(argv)
    assert capsys.readouterr().out.count("finished before") == 2
