"""Commands on a GPU that is pretended (tests/support/pretended_card.py), against the same on the CPU.

The functions ``card_*`` are the tests; pytest runs them in a process of their own, that begins with the card.
"""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from fairseq.trainer import Trainer

from tests.integration import commands
from tests.integration.commands import ROOT
from tests.support import prepared

PLAIN = ["--dropout", 0, "--attention-dropout", 0, "--max-update", 6, "--save-interval-updates", 4]
PLAIN += ["--validate-interval-updates", 3, "--valid-subset", "valid", "--update-freq", 2, "--batch-size", 4]
PLAIN += ["--clip-norm", 1.0, "--log-interval", 1]
SCRIPTS = ["--optimizer", "fused_adamw", "--lr-scheduler", "polynomial_decay", "--total-num-update", 6]
SCRIPTS += ["--warmup-updates", 2, "--adam-betas", "(0.9,0.98)", "--weight-decay", 0.01]

# Waits of an update that are known, by file and function: why they are there.
ALLOWED = {
    "fs_plugins/exlm/expansion.py Sizes.of": "shapes of the expanded batch; one a step",
    "fs_plugins/fairseq_patches/updates.py read_the_norm_once": "is it finite? one an update",
    "fs_plugins/fairseq_patches/updates.py read_the_sample_size_once": "after the forward pass; one a step",
    "fairseq/criterions/masked_lm.py MaskedLmLoss.forward": "which tokens are masked: fairseq's, two a step",
    "fs_plugins/models/mlm.py RotaryRobertaModel.predict": "which tokens are masked; one a step",
    "fs_plugins/criterions/masked_lm_accuracy.py MaskedLmAccuracy.forward": "the same",
    "fs_plugins/criterions/states_criterion.py StatesCriterion._use_of_states": "one a batch of a validation",
    "fs_plugins/criterions/state_use.py divergences": "one a batch of a validation",
    "fairseq/logging/meters.py type_as": "meters of a checkpoint, in the first update after it",
}
# Pre-trainings: model of configs/model (or ExLM for molecules), precision.
TRAININGS = [
    ("exlm", "fp32"),
    ("exlm", "fp16"),
    ("exlm", "bf16"),
    ("exlm-no-transitions", "fp16"),
    ("exlm-1d-rope", "bf16"),
    ("exlm-sparse", "bf16"),
    ("mlm", "bf16"),
    ("mlm", "fp16"),
    ("repeated-mlm", "fp32"),
    ("smiles", "bf16"),
]


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("g++") is None, reason="the pretended card needs g++ on Linux"
)
def test_on_a_pretended_card():
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.support.pretended_card",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, "-o", "python_functions=card_*", __file__], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def card():
    from tests.support import pretended_card

    assert torch.cuda.is_available() and torch.zeros(1, device="cuda").is_cuda
    return pretended_card


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    prepared.make(folder)
    return folder


@pytest.fixture
def update_waits(card, monkeypatch):
    """What waited, at each update after the first ("train_step") and batch of a validation ("valid_step")."""
    found = {"train_step": [], "valid_step": []}
    for name, counters in found.items():
        original = getattr(Trainer, name)

        def counted(trainer, *args, original=original, counters=counters, **kwargs):
            with card.waits() as waits:
                result = original(trainer, *args, **kwargs)
            if trainer.get_num_updates() > 1:
                counters.append(waits)
            return result

        monkeypatch.setattr(Trainer, name, counted)
    return found


def on_card(flags: list) -> list:
    return [flag for flag in flags if flag != "--cpu"]


def functions(waits: Counter) -> set[str]:
    return {re.sub(r"(\.<locals>\S*)?:\d+ .*", "", place) for place in waits}


def card_refuses_what_a_gpu_refuses(card):
    a, b = torch.ones(2, 3, device="cuda"), torch.ones(2, 3)
    for wrong in (lambda: a + b, lambda: torch.where(a > 0, a, b), lambda: a @ b.T):
        with pytest.raises(RuntimeError, match="same device"):
            wrong()
    with pytest.raises(TypeError, match="can't convert cuda:0"):
        a.numpy()
    with card.waits() as waits:
        assert (a + 1).sum().item() == 12 and a.tolist() == b.tolist() and len(a[a > 0]) == 6
    assert sum(waits.values()) == 3 and functions(waits) == {
        "test_pretended_card.py card_refuses_what_a_gpu_refuses"
    }


@pytest.mark.parametrize(("name", "precision"), TRAININGS)
def card_training(name, precision, corpus, inputs, tmp_path, stopped, update_waits):
    """Trained, validated, stopped, resumed: losses of the CPU, no wait that is not named."""
    own = [*PLAIN, *SCRIPTS]
    if name == "smiles":
        own += ["--tokens-per-sample", 34]
        arch = ["--arch", "exlm_smiles", "--ext-state-num", 2, *commands.TINY_MODEL]

    def flags(folder, precision=precision):
        if name == "smiles":
            words = [*commands.pretraining(inputs / "molecules", folder), *arch, *own]
        else:
            words = commands.variant(name, corpus, folder, *own)
        words += [] if precision == "fp32" else [f"--{precision}"]
        return [word for word in words if word != "--disable-validation"]

    expected = commands.train(*flags(tmp_path / "cpu", "fp32" if precision == "fp16" else precision))
    for counters in update_waits.values():
        counters.clear()
    with stopped(5):
        commands.train(*on_card(flags(tmp_path / "card")))
    run = commands.train(*on_card(flags(tmp_path / "card")))
    tolerance = 2e-3 if precision == "fp32" else 3e-2
    assert list(run.losses()) == [5, 6] and len(run.values("loss", "valid")) == 1
    for tag, last in (("train_inner", 2), ("valid", 1)):
        wanted = expected.values("loss", tag)[-last:]
        assert run.values("loss", tag) == pytest.approx(wanted, rel=tolerance)
    assert run.values("gnorm") == pytest.approx(expected.values("gnorm")[-2:], rel=10 * tolerance)
    assert len(update_waits["train_step"]) == 6  # updates 2 to 5; 5 and 6 again
    assert functions(set().union(*update_waits["train_step"], *update_waits["valid_step"])) <= {*ALLOWED}
    for waits in update_waits["valid_step"]:  # of a batch
        assert max(waits.values()) == 1


# name -> data, checkpoint, split to evaluate, flags
FINETUNINGS = {
    "glue": (
        *("glue/RTE-bin", "exlm", "valid"),
        "--task glue --criterion sentence_prediction --classification-head-name rte --num-classes 2 "
        "--init-token 0 --separator-token 2 --metrics accuracy --max-positions 516 --ext-state-num 4 "
        "--arch exlm_base",
    ),
    "squad": (
        *("squad-short", "exlm-long", "valid"),
        "--task squad2 --criterion squad2 --max-positions 1026 --window-tokens 128 --doc-stride 64 "
        "--ext-state-num 2 --arch exlm_base",
    ),
    "moleculenet": (
        *("bin", "exlm-smiles", "test"),
        "--task molecule_property --criterion molecule_property --max-positions 1026 --ext-state-num 2 "
        "--arch exlm_smiles",
    ),
}


@pytest.mark.parametrize("name", FINETUNINGS)
def card_finetuning_and_evaluation(name, card, inputs, tmp_path):
    import evaluate
    import prepare_moleculenet

    data, checkpoint, split, about = FINETUNINGS[name]
    if name == "moleculenet":
        rows = (f"{'C' * n}{end},{n % 2}" for n in range(1, 16) for end in ("O", "N", "F", "Cl"))
        (tmp_path / "set.csv").write_text("\n".join(["smiles,odd", *rows]))
        words = ["mine", tmp_path / "set.csv", inputs / data, "--dictionary", inputs / "molecules/dict.txt"]
        assert (
            prepare_moleculenet.main([*map(str, words), "--label-columns", "odd", "--split", "random"]) == 0
        )
    start = inputs / "checkpoints" / f"{checkpoint}.pt"
    flags = [inputs / data, "--user-dir", commands.PLUGIN, *about.split()]
    flags += [*prepared._SMALL.split(), "--finetune-from-model", start, "--max-update", 5, "--batch-size", 16]
    flags += ["--no-epoch-checkpoints"]
    flags += [*commands.OPTIMIZER, *commands.QUIET, "--find-unused-parameters", "--dropout", 0]
    flags += ["--attention-dropout", 0, "--pooler-dropout", 0]
    runs, scores = {}, {}
    for device, words in (("cpu", flags), ("cuda", on_card([*flags, "--fp16"]))):
        folder = tmp_path / device
        runs[device] = commands.train(*words, "--save-dir", folder)
        for place in ("cpu", "cuda"):
            words = [
                folder / "checkpoint_best.pt",
                inputs / data,
                "--output",
                folder / place,
                "--split",
                split,
            ]
            assert evaluate.main([*map(str, words), "--device", place]) == 0
            result = json.loads((folder / place / "result.json").read_text())
            scores[device, place] = {
                name: x for name, x in result["metrics"][split].items() if isinstance(x, float)
            }
    assert scores["cuda", "cuda"] == pytest.approx(scores["cuda", "cpu"], abs=1e-4)
    assert scores["cpu", "cuda"] == pytest.approx(scores["cpu", "cpu"], abs=1e-4)
    assert runs["cuda"].values("loss") == pytest.approx(runs["cpu"].values("loss"), rel=0.02)


@pytest.fixture(scope="module")
def saved(corpus, tmp_path_factory):
    """name -> the checkpoint of a training on the card: exlm (k = 4), mlm."""
    paths = {}
    for name, flags in (("exlm", ["--ext-state-num", 4]), ("mlm", [])):
        folder = tmp_path_factory.mktemp(name)
        commands.train(*on_card(commands.variant(name, corpus, folder, *flags, "--max-update", 30)))
        paths[name] = folder / "checkpoint_last.pt"
    return paths


@pytest.mark.parametrize("masks", [1, 2, 3])
@pytest.mark.parametrize("name", ["exlm", "mlm"])
def card_inference(name, masks, saved, corpus):
    """With k = 4 and an odd number of masks, sizes that are rounded on a GPU have nodes of no token."""
    from fs_plugins.inference import load

    on, off = (load(saved[name], data=corpus, bpe="none", device=device) for device in (None, "cpu"))
    assert on.checkpoint.device.type == "cuda"
    text = " ".join(["w1 <mask> w9 w16"] * masks)
    assert on.fill(text).text == off.fill(text).text
    torch.testing.assert_close(on.log_probs(text).cpu(), off.log_probs(text), atol=1e-4, rtol=1e-4)
    if name == "exlm":
        graphs = on.graph(text), off.graph(text)
        assert len(graphs[0].states) == len(graphs[1].states) == 4 * (masks + 2)
        assert graphs[0].best.text == graphs[1].best.text
        assert graphs[0].best.log_prob == pytest.approx(graphs[1].best.log_prob, abs=1e-3)
    [(vector, _)], [(expected, _)] = (list(model.embed(["w1 w2 w3"])) for model in (on, off))
    assert vector == pytest.approx(expected, abs=1e-4)


def card_predictions(card, inputs, tmp_path):
    from fs_plugins.inference import load

    path = inputs / "checkpoints/mnli.pt"
    rows = []
    for device in ("cuda", "cpu"):
        model = load(path, data=inputs / "glue/MNLI-bin", bpe="none", device=device)
        rows.append([row for row, _ in model.predict([("w1 w2", "w3"), ("w4", "w5 w6 w7")])])
    torch.testing.assert_close(*map(torch.tensor, map(np.stack, rows)), atol=1e-5, rtol=0)


@pytest.mark.parametrize("measure", ["probe", "joint", "states", "entropy"])
def card_measures(measure, saved, corpus, tmp_path):
    from fs_plugins.measures.__main__ import main

    results = {}
    for device in ("cpu", "cuda"):
        words = [measure, saved["exlm"], "--data", corpus, "--device", device, "--max-sentences", 10]
        assert main([*map(str, words), "--output", str(tmp_path / device)]) in (0, None)
        [results[device]] = json.loads((tmp_path / device).read_text())["rows"][0]["results"]
    for figure, value in results["cpu"].items():
        assert results["cuda"][figure] == pytest.approx(value, rel=1e-2), figure


@pytest.mark.parametrize("name", ["exlm", "mlm"])
def card_export(name, saved, corpus, tmp_path):
    from fs_plugins.huggingface.export import export
    from fs_plugins.inference import load

    tensors = commands.load_checkpoint(saved[name])["model"].values()
    assert {tensor.device.type for tensor in tensors} == {"cpu"}
    folder = export(saved[name], tmp_path / "exported", data=corpus, bpe="none")
    models = load(folder), load(saved[name], data=corpus, bpe="none", device="cpu")
    [(vector, _)], [(expected, _)] = (list(model.embed(["w1 w2 w3"])) for model in models)
    assert vector == pytest.approx(expected, abs=1e-4)
