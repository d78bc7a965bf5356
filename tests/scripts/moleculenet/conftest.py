"""Tiny pre-trained checkpoints, data and a fine-tuning, made once for all tests of this folder."""

import pytest

from fs_plugins.data.smiles_tokens import tokenize
from tests.integration import commands
from tests.integration.conftest import binarise
from tests.support.molecules import STREAM, finetune, labelled_molecules, molecules


@pytest.fixture(scope="package")
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


@pytest.fixture(scope="package")
def data(pretrained, tmp_path_factory):
    """100 molecules: whether there is a hetero-aromatic ring, and a second property with missing labels."""
    return labelled_molecules(tmp_path_factory.mktemp("data"), 100, pretrained[1])


@pytest.fixture(scope="package")
def finetuned(pretrained, data, tmp_path_factory):
    """The folder of fine-tunings of the ExLM with two seeds."""
    save = tmp_path_factory.mktemp("finetuned")
    for seed in (1, 2):
        finetune(pretrained, data, save, seed)
    return save


@pytest.fixture
def stream(tmp_path):
    path = tmp_path / "molecules.csv"
    path.write_text("id,smiles\n" + "".join(f"{i},{smiles}\n" for i, smiles in enumerate(STREAM)))
    return path
