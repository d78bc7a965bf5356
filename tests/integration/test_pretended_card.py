"""Commands on a GPU that is pretended (tests/support/pretended_card.py), against the same on the CPU.

The functions ``card_*`` are the tests; pytest runs them in a process of their own, that begins with the card.
"""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter

import evaluate
import numpy as np
import prepare_moleculenet
import pytest
import torch
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from torch.utils._python_dispatch import TorchDispatchMode

from fs_plugins.huggingface.export import export
from fs_plugins.inference import load
from fs_plugins.measures.__main__ import main
from tests.integration import commands
from tests.integration.commands import ROOT
from tests.support import prepared

PLAIN = ["--dropout", 0, "--attention-dropout", 0, "--max-update", 6, "--save-interval-updates", 4]
PLAIN += ["--validate-interval-updates", 3, "--valid-subset", "valid", "--update-freq", 2, "--batch-size", 4]
PLAIN += ["--clip-norm", 1.0, "--log-interval", 1]
PLAIN += ["--optimizer", "fused_adamw", "--lr-scheduler", "polynomial_decay", "--total-num-update", 6]
PLAIN += ["--warmup-updates", 2, "--adam-betas", "(0.9,0.98)", "--weight-decay", 0.01]

# Waits of an update of two steps, or a batch of a validation: how many at most, and why they are there.
ALLOWED = {
    "fs_plugins/exlm/expansion.py Sizes.of": (2, "shapes of the expanded batch; one a step"),
    "fs_plugins/fairseq_patches/updates.py read_the_norm_once": (1, "is it finite?"),
    "fs_plugins/fairseq_patches/updates.py read_the_sample_size_once": (2, "one a step, for all that asks"),
    "fairseq/criterions/masked_lm.py MaskedLmLoss.forward": (4, "which tokens are masked; fairseq's own"),
    "fs_plugins/models/mlm.py RotaryRobertaModel.predict": (2, "the same"),
    "fs_plugins/criterions/masked_lm_accuracy.py MaskedLmAccuracy.forward": (2, "the same"),
    "fairseq/trainer.py Trainer.train_step": (1, "the norm of --amp, whose optimizer has its own"),
    "fairseq/logging/meters.py type_as": (9, "meters of a checkpoint, in the first update after it"),
    # validations only
    "fs_plugins/criterions/states_criterion.py StatesCriterion._use_of_states": (
        1,
        "number of masked tokens",
    ),
    "fs_plugins/criterions/state_use.py divergences": (1, "number of each sentence's, for bounded memory"),
}
# a model of configs/model, or ExLM on molecules, and a precision
TRAININGS = (
    "exlm-fp32 exlm-fp16 exlm-bf16 exlm-amp exlm-no-transitions-fp16 exlm-1d-rope-bf16 exlm-sparse-bf16"
)
TRAININGS += " mlm-bf16 mlm-fp16 repeated-mlm-fp32 smiles-bf16"


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("g++") is None or torch.version.cuda is not None,
    reason="the pretended card needs Linux, g++ and a PyTorch without CUDA",
)
def test_on_a_pretended_card():
    options = ["-q", "-p", "tests.support.pretended_card", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, "-o", "python_functions=card_*", __file__]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
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


def functions(waits: Counter) -> Counter:
    """How often each function waited."""
    found = Counter()
    for place, count in waits.items():
        found[re.sub(r"(\.<locals>\S*)?:\d+ .*", "", place)] += count
    return found


def card_refuses_what_a_gpu_refuses(card):
    a, b = torch.ones(2, 3, device="cuda"), torch.ones(2, 3)
    for wrong in (lambda: a + b, lambda: torch.where(a > 0, a, b), lambda: a @ b.T):
        with pytest.raises(RuntimeError, match="same device"):
            wrong()
    with pytest.raises(TypeError, match="can't convert cuda:0"):
        a.numpy()
    with card.waits() as waits:
        assert (a + 1).sum().item() == 12 and a.tolist() == b.tolist() and len(a[a > 0]) == 6
    assert functions(waits) == {"test_pretended_card.py card_refuses_what_a_gpu_refuses": 3}


@pytest.mark.parametrize("training", TRAININGS.split())
def card_training(training, corpus, inputs, tmp_path, stopped, update_waits):
    """Trained, validated, stopped, resumed: losses of the CPU, no wait that is not named."""
    name, _, precision = training.rpartition("-")
    data, about = corpus, [tmp_path / "card", *PLAIN, f"--{precision}"]
    if name == "smiles":
        name, data, about = "exlm", inputs / "molecules", [*about, "--arch", "exlm_smiles"]
    flags = commands.variant(name, data, *about)
    flags = [flag for flag in flags if flag not in ("--disable-validation", "--fp32")]
    of_cpu = [flag for flag in flags if flag not in ("--fp16", "--amp")]  # which fairseq has on GPUs only
    expected = commands.train(*of_cpu, "--save-dir", tmp_path / "cpu")
    for counters in update_waits.values():
        counters.clear()
    with stopped(5):
        commands.train(*on_card(flags))
    run = commands.train(*on_card(flags))
    tolerance = 2e-3 if precision == "fp32" else 3e-2
    assert list(run.losses()) == [5, 6] and len(run.values("loss", "valid")) == 1
    for tag, last in (("train_inner", 2), ("valid", 1)):
        assert run.values("loss", tag) == pytest.approx(expected.values("loss", tag)[-last:], rel=tolerance)
    assert run.values("gnorm") == pytest.approx(expected.values("gnorm")[-2:], rel=10 * tolerance)
    assert len(update_waits["train_step"]) == 6  # updates 2 to 5; 5 and 6 again
    for waits in [*update_waits["train_step"], *update_waits["valid_step"]]:
        assert not {f: n for f, n in functions(waits).items() if n > ALLOWED.get(f, (0, ""))[0]}


class Operators(TorchDispatchMode):
    """Counts the calls of operators but views, which run nothing on a GPU."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def card_update_has_fewer_operators_than_parameters(precision, card, corpus, tmp_path, monkeypatch):
    """After the last backward pass."""
    operators, parameters = Operators(), set()
    for owner, name in ((Trainer, "clip_grad_norm"), (Trainer, "zero_grad"), (FairseqTask, "optimizer_step")):
        original = getattr(owner, name)

        def counted(owner, *args, original=original, **kwargs):
            if isinstance(owner, Trainer) and owner.get_num_updates() <= 1:  # the first one makes moments
                parameters.update(owner.model.parameters())
                operators.count = 0
            with operators:
                return original(owner, *args, **kwargs)

        monkeypatch.setattr(owner, name, counted)
    flags = commands.pretraining(
        corpus, tmp_path, *PLAIN, "--encoder-layers", 4, f"--{precision}", "--no-save"
    )
    commands.train(*on_card([flag for flag in flags if flag != "--fp32"]))
    assert operators.count / 5 < 50 < len(parameters)


SMALL = "--encoder-layers 2 --encoder-embed-dim 16 --encoder-ffn-embed-dim 24 --encoder-attention-heads 2"
GLUE = "--criterion sentence_prediction --classification-head-name rte --num-classes 2"
GLUE += " --init-token 0 --separator-token 2 --metrics accuracy --max-positions 516 --ext-state-num 4"
SQUAD = "--criterion squad2 --window-tokens 128 --doc-stride 64"
LONG = "--max-positions 1026 --ext-state-num 2"
# data, the model that is fine-tuned, split to evaluate, flags
FINETUNINGS = {
    "glue": ("glue/RTE-bin", "exlm", "valid", f"--arch exlm_base {GLUE}"),
    "squad2": ("squad-short", "exlm-long", "valid", f"--arch exlm_base {SQUAD} {LONG}"),
    "molecule_property": (
        "odd",
        "exlm-smiles",
        "test",
        f"--arch exlm_smiles --criterion molecule_property {LONG}",
    ),
}


@pytest.fixture(scope="module")
def molecules(inputs):
    rows = (f"{'C' * n}{end},{n % 2}" for n in range(1, 16) for end in ("O", "N", "F", "Cl"))
    (inputs / "set.csv").write_text("\n".join(["smiles,odd", *rows]))
    words = ["mine", inputs / "set.csv", inputs / "odd", "--dictionary", inputs / "molecules/dict.txt"]
    assert prepare_moleculenet.main([*map(str, words), "--label-columns", "odd", "--split", "random"]) == 0


@pytest.mark.parametrize("name", FINETUNINGS)
def card_finetuning_and_evaluation(name, card, inputs, molecules, tmp_path):
    data, start, split, about = FINETUNINGS[name]
    flags = f"{inputs / data} --user-dir {commands.PLUGIN} --task {name} {about} {SMALL}"
    flags += f" --finetune-from-model {inputs}/checkpoints/{start}.pt --max-update 5 --batch-size 16"
    flags += " --no-epoch-checkpoints --find-unused-parameters --pooler-dropout 0"
    flags = [*flags.split(), *commands.OPTIMIZER, *commands.QUIET, *PLAIN[:4]]
    runs, scores = {}, {}
    for device, words in (("cpu", flags), ("cuda", on_card([*flags, "--fp16"]))):
        runs[device] = commands.train(*words, "--save-dir", tmp_path / device)
        for place in ("cpu", "cuda"):
            output = tmp_path / device / place
            words = [tmp_path / device / "checkpoint_best.pt", inputs / data, "--output", output]
            assert evaluate.main([*map(str, words), "--split", split, "--device", place]) == 0
            found = json.loads((output / "result.json").read_text())["metrics"][split]
            scores[device, place] = {key: value for key, value in found.items() if isinstance(value, float)}
        assert scores[device, "cuda"] == pytest.approx(scores[device, "cpu"], abs=1e-4)
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


def card_predictions(card, inputs):
    place, data = inputs / "checkpoints/mnli.pt", inputs / "glue/MNLI-bin"
    models = (load(place, data=data, bpe="none", device=device) for device in ("cuda", "cpu"))
    texts = [("w1 w2", "w3"), ("w4", "w5 w6 w7")]
    rows = [torch.tensor(np.stack([row for row, _ in model.predict(texts)])) for model in models]
    torch.testing.assert_close(*rows, atol=1e-5, rtol=0)


@pytest.mark.parametrize("measure", ["probe", "joint", "entropy"])
def card_measures(measure, saved, corpus, tmp_path):
    results = {}
    for device in ("cpu", "cuda"):
        words = [measure, saved["exlm"], "--data", corpus, "--device", device, "--max-sentences", 10]
        assert main([*map(str, words), "--output", str(tmp_path / device)]) in (0, None)
        [results[device]] = json.loads((tmp_path / device).read_text())["rows"][0]["results"]
    for figure, value in results["cpu"].items():
        assert results["cuda"][figure] == pytest.approx(value, rel=1e-2), figure


@pytest.mark.parametrize("name", ["exlm", "mlm"])
def card_export(name, saved, corpus, tmp_path):
    tensors = commands.load_checkpoint(saved[name])["model"].values()
    assert {tensor.device.type for tensor in tensors} == {"cpu"}
    folder = export(saved[name], tmp_path / "exported", data=corpus, bpe="none")
    models = load(folder), load(saved[name], data=corpus, bpe="none", device="cpu")
    [(vector, _)], [(expected, _)] = (list(model.embed(["w1 w2 w3"])) for model in models)
    assert vector == pytest.approx(expected, abs=1e-4)
