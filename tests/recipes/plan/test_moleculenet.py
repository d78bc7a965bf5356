"""Fine-tuning on molecules: table 8, batches, what is refused or told."""

import json
import shutil

import numpy as np
import pytest
from recipes.command_line import RecipeError
from recipes.flags import Flags
from recipes.plan.moleculenet import TABLE8

TABLE_8 = {
    "bace": ("60", "64", "1e-4", "0.06", "0.1", "0.2"),
    "bbbp": ("40", "128", "4e-4", "0.06", "0.1", "0.1"),
    "tox21": ("80", "128", "1e-4", "0.06", "0.1", "0.1"),
    "sider": ("100", "32", "5e-4", "0.4", "0.1", "0"),
    "muv": ("40", "128", "2e-5", "0.2", "0.1", "0.1"),
    "clintox": ("100", "256", "5e-5", "0.1", "0.1", "0.5"),
    "toxcast": ("80", "64", "1e-4", "0.06", "0.1", "0.1"),
}
NAMES = ("--max-epoch", "--batch-size", "--lr", "--warmup-ratio", "--dropout", "--pooler-dropout")


@pytest.fixture
def molecules(plan, toy_inputs):
    """molecules(SET, WORD...) -> plan of "exlm-smiles"."""

    def make(dataset, *words, data=None, checkpoint="exlm-smiles"):
        data = data or toy_inputs / "moleculenet" / dataset
        path = toy_inputs / "checkpoints" / f"{checkpoint}.pt"
        return plan("finetune_moleculenet", dataset, path, data, "save", "--print", *words)

    return make


@pytest.fixture
def copied(toy_inputs, tmp_path):
    """A copy of bbbp's data, to be damaged."""
    return shutil.copytree(toy_inputs / "moleculenet" / "bbbp", tmp_path / "bbbp")


@pytest.mark.parametrize("dataset", sorted(TABLE_8))
def test_flag_files_are_table_8(dataset):
    flags = Flags.read(TABLE8 / f"{dataset}.flags")
    assert tuple(flags.value(name) for name in NAMES) == TABLE_8[dataset] and set(flags) == set(NAMES)


def test_the_schedule_and_the_start(molecules, toy_inputs):
    found = molecules("sider")
    epochs, batch, lr, ratio, dropout, pooler = TABLE_8["sider"]
    recipe = found.groups["recipe"]
    names = ("--max-epoch", "--lr", "--dropout", "--pooler-dropout")
    assert [recipe.value(name) for name in names] == [epochs, lr, dropout, pooler]
    updates = int(epochs) * -(-97 // int(batch))
    assert recipe.whole("--total-num-update") == updates
    assert recipe.whole("--warmup-updates") == round(float(ratio) * updates)
    assert "--warmup-ratio" not in recipe and found.groups["batch"].value("--batch-size") == batch
    start = ["--finetune-from-model", str(toy_inputs / "checkpoints" / "exlm-smiles.pt")]
    assert found.values["start"] == start and found.groups["model"].value("--arch") == "exlm_smiles"
    scratch = molecules("sider", "--scratch")
    assert scratch.values["start"] == [] and scratch.groups["model"] == found.groups["model"]
    assert scratch.settings() != found.settings()
    assert found.groups["best"].words() == [
        *("--best-checkpoint-metric", "auc", "--maximize-best-checkpoint-metric")
    ]


def test_a_regression_is_best_where_its_error_is_lowest(molecules, toy_inputs):
    found = molecules("tox21", data=toy_inputs / "moleculenet" / "solubility")
    assert found.groups["best"].words() == ["--best-checkpoint-metric", "rmse"]


def test_the_batch_is_that_of_an_update(molecules):
    whole, split = (molecules("bbbp", "--batch-size", 24, *more) for more in ((), ("--update-freq", 3)))
    assert split.groups["batch"] == {"--batch-size": ("8",), "--update-freq": ("3",)}
    assert whole.groups["recipe"] == split.groups["recipe"]
    assert whole.groups["recipe"].whole("--total-num-update") == 40 * 7  # epochs, updates for 163 molecules
    with pytest.raises(RecipeError, match="--update-freq 3: --batch-size 128 is that of an update"):
        molecules("bbbp", "--update-freq", 3)


def test_hyper_parameters_of_another_set_are_told(molecules, toy_inputs):
    assert molecules("bbbp").notes == []
    [note] = molecules("bace", data=toy_inputs / "moleculenet" / "bbbp").notes
    assert "was prepared as bbbp, and is fine-tuned with the hyper-parameters of bace" in note


@pytest.mark.parametrize(
    ("dataset", "words", "message"),
    [
        ("esol", [], "unknown dataset 'esol': choose one of bace, bbbp"),
        ("bbbp", ["--max-epoch", "0"], "--max-epoch '0': give a whole number"),
        ("bbbp", ["--save-dir", "x"], "--save-dir is set by finetune_moleculenet.sh"),
        ("bbbp", ["--gpus", "2"], "trains on one GPU"),
    ],
)
def test_what_is_refused(molecules, dataset, words, message):
    with pytest.raises(RecipeError, match=message):
        molecules(dataset, *words)


def test_what_is_not_there_or_not_its_own(molecules, copied, toy_inputs, tmp_path):
    with pytest.raises(RecipeError, match="none.pt is not there"):
        molecules("bbbp", checkpoint="none")
    with pytest.raises(RecipeError, match="molecules.json does not exist: DATA is a folder made by"):
        molecules("bbbp", data=tmp_path)
    with pytest.raises(RecipeError, match="dict.txt has 19 entries .* the dictionary of the checkpoint"):
        molecules("bbbp", checkpoint="exlm")
    lines = (copied / "dict.txt").read_text().splitlines(keepends=True)
    (copied / "dict.txt").write_text("".join(lines[::-1]))
    with pytest.raises(RecipeError, match="line 1: .* where the checkpoint's dictionary .* has .* as long"):
        molecules("bbbp", data=copied)


def test_a_fine_tuned_model_is_no_pretrained_one(plan, saved_checkpoint, toy_inputs):
    tuned = saved_checkpoint(task={"_name": "molecule_property"})
    with pytest.raises(RecipeError, match=r"was fine-tuned \(--task molecule_property\)"):
        plan("finetune_moleculenet", "bbbp", tuned, toy_inputs / "moleculenet" / "bbbp", "save")


@pytest.mark.parametrize("part", ["train", "valid"])
def test_nothing_to_learn_is_said_before_training(molecules, copied, part):
    labels = np.load(copied / f"{part}.labels.npy")
    np.save(copied / f"{part}.labels.npy", np.zeros_like(labels))
    with pytest.raises(RecipeError, match=f"no property has labels of both classes in {part} of"):
        molecules("bbbp", data=copied)


def test_damaged_metadata(molecules, copied):
    state = json.loads((copied / "molecules.json").read_text())
    del state["sizes"]
    (copied / "molecules.json").write_text(json.dumps(state))
    with pytest.raises(RecipeError, match="molecules.json is damaged .*prepare the data again"):
        molecules("bbbp", data=copied)
