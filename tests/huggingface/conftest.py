"""Checkpoints of every kind as fairseq-train saves them, and their exports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fs_plugins.huggingface.export import export
from tests import builders
from tests.integration.conftest import one_thread
from tests.models.test_parity import record

__all__ = ["one_thread", "record"]  # fixtures

# fairseq-fixed draws it in, transformers would import it, and it may not fit the installed torch
sys.modules.setdefault("torchaudio", None)
WORDS = ["this", "is", "very", "good", "bad", "news", ",", "and", "I", "am"]
WORDS += ["glad", "sorry", "to", "see", "it", "."]
TEXTS = [
    "this is good news , and I am very glad to see it .",
    "this is bad news .",
    "I am very sorry to see it .",
]
DAG, CTC = "nat_dag_loss_mlm", "nat_ctc_loss_mlm"
# name -> arch, criterion, flags
KINDS = {
    "exlm": ("exlm_base", DAG, {"ext_state_num": 3}),
    "sparse": (
        "exlm_base",
        DAG,
        {
            **{"ext_state_num": 2, "state_graph": "sparse", "max_transition_length": 4},
            **{"links_feature": "feature", "rope_dimensions": 1, "expand_from_layer": 1},
            "untie_weights_roberta": True,
        },
    ),
    "lattice": (
        "exlm_base",
        DAG,
        {"ext_state_num": 3, "state_graph": "lattice", "state_embedding_scale": 1.0, "expand_from_layer": 2},
    ),
    "postnorm": (
        "p_roberta_ext_denselink_base",
        DAG,
        {"ext_state_num": 4, "links_feature": "position", "state_graph": "local", "activation_fn": "relu"},
    ),
    "ctc": ("exlm_base", CTC, {"ext_state_num": 3}),
    "mlm": ("mlm_smiles", "masked_lm", {"activation_fn": "gelu_accurate"}),
    "repeated": ("p_roberta_base", "masked_lm", {"repeat_times": 3}),
}


@pytest.fixture(scope="session")
def transformers(tmp_path_factory):
    """The library, offline, with a cache of its own."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path_factory.mktemp("hf_home"))}
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return transformers


@pytest.fixture(scope="session")
def load(transformers):
    """load(class name, folder, ...) -> a model, its tokenizer, or another thing of transformers'."""

    def load(name: str, folder, **options):
        options = {"trust_remote_code": True, **options}
        return getattr(transformers, name).from_pretrained(str(folder), **options)

    return load


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """A data folder: symbols between blanks."""
    folder = tmp_path_factory.mktemp("corpus") / "data-bin"
    builders.write_split(folder, "train", [[4, 5, 6, 2]] * 4, builders.dictionary(WORDS))
    return folder


@pytest.fixture(scope="session")
def save_checkpoint(corpus, tmp_path_factory):
    """save_checkpoint(arch, ...) -> path of the checkpoint of a random model, in fairseq's format."""

    def save(
        arch,
        criterion=DAG,
        task=None,
        *,
        words=WORDS,
        data=corpus,
        task_state=None,
        heads=(),
        seed=0,
        **flags,
    ):
        symbols = builders.dictionary(words)
        times = flags.pop("repeat_times", 1)
        task = task or ({"_name": "repeated_masked_lm"} if times > 1 else {"_name": "masked_lm"})
        flags = {**builders.SMALL, **flags}
        model = builders.model(arch, symbols, seed=seed, **flags)
        for kind, name, outputs in heads:
            getattr(model, f"register_{kind}_head")(name, outputs)
        with torch.no_grad():  # far from uniform, as a trained model's, and no parameter as initialised
            generator = torch.Generator().manual_seed(seed)
            for name, parameter in model.named_parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                parameter += (1.0 if name.endswith("lm_head.layer_norm.weight") else 0.1) * noise
        return builders.save_checkpoint(
            tmp_path_factory.mktemp("checkpoint") / "checkpoint_best.pt",
            model,
            {"arch": arch, **flags},
            {"data": str(data), "repeat_times": times, "mask_prob": 0.15, **task},
            {"_name": criterion} if isinstance(criterion, str) else criterion,
            updates=1234,
            cfg={"common": {"seed": 7}, "checkpoint": {"best_checkpoint_metric": "loss"}},
            task_state=task_state or {},
            extra_state={"epoch": 1, "train_iterator": {"epoch": 1}, "val_loss": 4.75},
        )

    return save


@pytest.fixture(scope="session")
def checkpoints(save_checkpoint) -> dict[str, Path]:
    """A pre-trained checkpoint of each kind."""
    return {
        name: save_checkpoint(arch, criterion, **flags) for name, (arch, criterion, flags) in KINDS.items()
    }


@pytest.fixture(scope="session")
def folders(checkpoints, tmp_path_factory) -> dict[str, Path]:
    """The export of each."""
    place = tmp_path_factory.mktemp("exports")
    return {name: export(path, place / name) for name, path in checkpoints.items()}


@pytest.fixture(scope="session")
def run_outside(transformers):
    """run_outside(folder, words) runs Python there, in a process that can import neither fairseq nor this
    package if it imports outsider.py."""

    def run(folder: Path, *words) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *map(str, words)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    return run
