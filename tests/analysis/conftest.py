"""A small corpus, and checkpoints as fairseq-train saves them."""

from pathlib import Path

import pytest
import torch

from tests import builders
from tests.integration import commands
from tests.integration.conftest import one_thread

__all__ = ["one_thread"]  # a fixture

WORDS = ["this", "is", "very", "good", "bad", "news", ",", "and", "I", "am"]
WORDS += ["glad", "sorry", "to", "see", "it", "."]
SENTENCES = [
    "this is good news , and I am very glad to see it .",
    "this is bad news , and I am very sorry to see it .",
    "it is good , I see .",
    "I am very sorry .",
    "very good news , and I am glad to see this .",
]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """The folder of a binarised corpus of a dictionary of 16 words: ``train`` and ``valid``."""
    folder = tmp_path_factory.mktemp("analysis")
    (folder / "dict.txt").write_text("".join(f"{word} 1\n" for word in WORDS))
    for split, lines in (("train", SENTENCES * 8), ("valid", SENTENCES * 4)):
        (folder / split).write_text("".join(f"{line}\n" for line in lines))
    flags = [
        "--trainpref",
        folder / "train",
        "--validpref",
        folder / "valid",
        "--srcdict",
        folder / "dict.txt",
    ]
    commands.call("preprocess", "--only-source", "--workers", 1, "--destdir", folder / "bin", *flags)
    return folder / "bin"


@pytest.fixture(scope="session")
def pretrained(corpus, tmp_path_factory) -> Path:
    """The checkpoint of a few updates of ExLM, k = 3, on the corpus, by fairseq-train itself."""
    folder = tmp_path_factory.mktemp("pretrained")
    flags = ["--ext-state-num", 3, "--max-positions", 64, "--max-update", 12, "--sample-break-mode", "eos"]
    commands.train(*commands.pretraining(corpus, folder, *flags))
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def save_checkpoint(corpus, tmp_path_factory):
    """save_checkpoint(arch, ...) -> path of the checkpoint of a random model, in fairseq's format."""

    def save(
        arch: str, *, task="masked_lm", criterion="masked_lm", seed=0, spread=1.0, symbols=None, **flags
    ):
        symbols = symbols or builders.dictionary(WORDS)
        options = {"mask_prob": 0.3, "tokens_per_sample": 32, "sample_break_mode": "eos", "seed": 1}
        options |= {name: flags.pop(name) for name in ("mask_prob", "repeat_times") if name in flags}
        options = {name: value for name, value in options.items() if value is not None}
        flags = {**builders.SMALL, **flags}
        model = builders.model(arch, symbols, seed=seed, **flags)
        with torch.no_grad():  # far from uniform, as a trained model's
            model.encoder.lm_head.layer_norm.weight.mul_(spread)
            model.encoder.lm_head.bias.normal_(0, 0.5, generator=torch.Generator().manual_seed(seed))
        path = tmp_path_factory.mktemp("checkpoint") / "checkpoint.pt"
        task = {"_name": task, "data": str(corpus), **options}
        return builders.save_checkpoint(path, model, {"arch": arch, **flags}, task, {"_name": criterion})

    return save
