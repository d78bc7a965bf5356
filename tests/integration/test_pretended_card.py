"""Commands on a GPU that is pretended (tests/support/pretended_card.py), against the same on the CPU.

The functions ``card_*`` are the tests; pytest runs them in a process of their own, that begins with the card.
"""

import json
import shutil
import subprocess
import sys

import evaluate
import pytest
import torch
from fairseq.trainer import Trainer

from fs_plugins.huggingface.export import export
from fs_plugins.inference import load
from fs_plugins.measures.__main__ import main
from tests.integration import commands
from tests.support import pages, prepared

PLAIN = ["--dropout", 0, "--attention-dropout", 0, "--max-update", 6, "--save-interval-updates", 4]
PLAIN += ["--validate-interval-updates", 3, "--valid-subset", "valid", "--update-freq", 2, "--batch-size", 4]
PLAIN += ["--clip-norm", 1.0, "--log-interval", 1]
PLAIN += ["--optimizer", "fused_adamw", "--lr-scheduler", "polynomial_decay", "--total-num-update", 6]
PLAIN += ["--warmup-updates", 2, "--adam-betas", "(0.9,0.98)", "--weight-decay", 0.01]

# Waits of an update of two steps, or a batch of a validation: how many at most, and why they are there.
ALLOWED = {
    "fs_plugins/exlm/expansion.py Sizes.of": 2,  # shapes of the expanded batch; one a step
    "fs_plugins/fairseq_patches/updates.py read_the_norm_once": 1,  # is it finite?
    "fs_plugins/fairseq_patches/updates.py read_the_sample_size_once": 2,  # one a step, for all that asks
    "fairseq/criterions/masked_lm.py MaskedLmLoss.forward": 4,  # which tokens are masked; fairseq's own
    "fs_plugins/exlm/model.py MLM.forward": 2,  # the same
    "fs_plugins/criterions/masked_lm_accuracy.py MaskedLmAccuracy.forward": 2,  # the same
    "fairseq/trainer.py Trainer.train_step": 1,  # the norm of --amp, whose optimizer has its own
    "fairseq/logging/meters.py type_as": 9,  # meters of a checkpoint, in the first update after it
    # validations only: the number of masked tokens, and of each sentence's
    "fs_plugins/criterions/states_criterion.py StatesCriterion._use_of_states": 1,
    "fs_plugins/criterions/state_use.py divergences": 1,
}
# a model of configs/model, or ExLM on molecules, and a precision
TRAININGS = "exlm-fp32 exlm-fp16 exlm-bf16 exlm-amp exlm-no-transitions-fp16 exlm-1d-rope-bf16"
TRAININGS += " exlm-sparse-bf16 mlm-bf16 mlm-fp16 repeated-mlm-fp32 smiles-bf16"
LACKING = sys.platform != "linux" or shutil.which("g++") is None or torch.version.cuda is not None


@pytest.mark.slow
@pytest.mark.skipif(LACKING, reason="the pretended card needs Linux, g++ and a PyTorch without CUDA")
def test_on_a_pretended_card():
    options = ["-q", "-p", "tests.support.pretended_card", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, "-o", "python_functions=card_*", __file__]
    done = subprocess.run(command, cwd=commands.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def on_card(flags: list) -> list:
    return [flag for flag in flags if flag not in ("--cpu", "--disable-validation", "--fp32")]


def card_refuses_what_a_gpu_refuses():
    from tests.support.pretended_card import waits

    a, b = torch.ones(2, 3, device="cuda"), torch.ones(2, 3)
    for wrong in (lambda: a + b, lambda: torch.where(a > 0, a, b), lambda: a @ b.T):
        with pytest.raises(RuntimeError, match="same device"):
            wrong()
    with pytest.raises(TypeError, match="can't convert cuda:0"):
        a.numpy()
    waits.clear()
    assert (a + 1).sum().item() == 12 and a.tolist() == b.tolist() and len(a[a > 0]) == 6
    assert waits == {"test_pretended_card.py card_refuses_what_a_gpu_refuses": 3}


@pytest.mark.parametrize("training", TRAININGS.split())
def card_training(training, corpus, toy_inputs, tmp_path, stopped, monkeypatch):
    """Trained, validated, stopped, resumed: losses of the CPU, no wait that is not named."""
    from tests.support.pretended_card import waits

    name, _, precision = training.rpartition("-")
    data, about = corpus, [tmp_path / "card", *PLAIN, f"--{precision}"]
    if name == "smiles":
        name, data, about = "exlm", toy_inputs / "molecules", [*about, "--arch", "exlm_smiles"]
    flags = commands.variant(name, data, *about)
    # --fp16 and --amp are fairseq's on GPUs only
    of_cpu = ["--cpu", *(flag for flag in on_card(flags) if flag not in ("--fp16", "--amp"))]
    expected, counted = commands.train(*of_cpu, "--save-dir", tmp_path / "cpu"), []

    def watched(what):
        original = getattr(Trainer, what)

        def step(trainer, *args, **kwargs):
            waits.clear()
            result = original(trainer, *args, **kwargs)
            if trainer.get_num_updates() > 1:
                counted.append(what)
                assert not {f: n for f, n in waits.items() if n > ALLOWED.get(f, 0)}
            return result

        return step

    for what in ("train_step", "valid_step"):
        monkeypatch.setattr(Trainer, what, watched(what))
    with stopped(5):
        commands.train(*on_card(flags))
    run = commands.train(*on_card(flags))
    tolerance = 2e-3 if precision == "fp32" else 3e-2
    assert list(run.losses()) == [5, 6] and len(run.values("loss", "valid")) == 1
    for tag, last in (("train_inner", 2), ("valid", 1)):
        assert run.values("loss", tag) == pytest.approx(expected.values("loss", tag)[-last:], rel=tolerance)
    assert run.values("gnorm") == pytest.approx(expected.values("gnorm")[-2:], rel=10 * tolerance)
    assert counted.count("train_step") == 6 and "valid_step" in counted  # updates 2 to 5; 5 and 6 again


@pytest.mark.parametrize("script", prepared.FINETUNINGS)
def card_finetuning_and_evaluation(script, toy_inputs, tmp_path):
    """Scores of either device's model are the same on both."""
    words, start, data = prepared.FINETUNINGS[script]
    words, losses = [*words, toy_inputs / f"checkpoints/{start}.pt", toy_inputs / data], []
    flags = [*PLAIN[:4], "--pooler-dropout", 0, "--max-update", 5, "--batch-size", 16, "--log-interval", 1]
    for device, other in (("--cpu", "cuda"), ("--gpus=1", "cpu")):
        save = tmp_path / device
        pages.run(f"finetune_{script}", *words, save, device, *flags)
        losses.append(commands.Run((save / "train.log").read_text()).values("loss"))
        again = [save / "checkpoint_best.pt", *words[-1:], "--output", save / "again", "--device", other]
        if script == "glue":
            again[1] = toy_inputs / "glue/RTE-bin"
        assert evaluate.main([*map(str, again)]) == 0
        results = (json.loads((place / "result.json").read_text()) for place in (save, save / "again"))
        found, expected = (result["metrics"]["valid"] for result in results)
        assert {**found, "properties": 0} == pytest.approx({**expected, "properties": 0}, abs=1e-4)
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


@pytest.mark.parametrize("name", ["exlm", "mlm"])
def card_use_of_a_trained_model(name, corpus, tmp_path):
    """Filled, embedded, drawn, measured and exported."""
    flags = ["--ext-state-num", 4] if name == "exlm" else []
    commands.train(*on_card(commands.variant(name, corpus, tmp_path, *flags, "--max-update", 30)))
    path = tmp_path / "checkpoint_last.pt"
    tensors = commands.load_checkpoint(path)["model"].values()
    assert {tensor.device.type for tensor in tensors} == {"cpu"}
    folder = export(path, tmp_path / "exported", data=corpus, bpe="none")
    on, off = (load(path, data=corpus, bpe="none", device=device) for device in (None, "cpu"))
    assert on.checkpoint.device.type == "cuda"
    for masks in (1, 2, 3):
        text = " ".join(["w1 <mask> w9 w16"] * masks)
        assert on.fill(text).text == off.fill(text).text
        torch.testing.assert_close(on.log_probs(text).cpu(), off.log_probs(text), atol=1e-4, rtol=1e-4)
        if name == "exlm":
            drawn, expected = on.graph(text), off.graph(text)
            assert len(drawn.states) == 4 * (masks + 2) and drawn.best.text == expected.best.text
            assert drawn.best.log_prob == pytest.approx(expected.best.log_prob, abs=1e-3)
    first, *others = (next(iter(model.embed(["w1 w2 w3"])))[0] for model in (off, on, load(folder)))
    assert others == [pytest.approx(first, abs=1e-4)] * 2
    for measure in ("probe", "joint", "entropy"):
        results = {}
        for device in ("cpu", "cuda"):
            words = [measure, path, "--data", corpus, "--device", device, "--max-sentences", 10]
            assert main([*map(str, words), "--output", str(tmp_path / f"{measure}-{device}")]) in (0, None)
            written = json.loads((tmp_path / f"{measure}-{device}").read_text())
            [results[device]] = written["rows"][0]["results"]
        for figure, value in results["cpu"].items():
            expected = value if value is None else pytest.approx(value, rel=1e-2, abs=1e-5)
            assert results["cuda"][figure] == expected, figure
