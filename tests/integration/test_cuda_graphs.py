"""Trainings with --cuda-graph, whose graphs overwrite what they have given, have eager's losses."""

import pytest
import torch

from tests.integration.commands import pretraining, train, train_on_two
from tests.support import cuda_graphs

PLAIN = ["--dropout", 0, "--attention-dropout", 0, "--max-update", 6]
VALIDATED = ["--validate-interval-updates", 2, "--valid-subset", "valid", "--max-valid-steps", 2]


@pytest.fixture
def generations(monkeypatch):
    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=64):
        yield cuda_graphs.emulate(monkeypatch.setattr)
    torch._dynamo.reset()


def test_a_result_is_overwritten_by_the_next_step(generations):
    weight = torch.ones(3, requires_grad=True)
    square = torch.compile(lambda x: x * x * weight, mode="reduce-overhead", dynamic=False)
    first = square(torch.ones(3))
    square(torch.ones(3))  # of the same step
    first.sum().backward()
    assert first.isfinite().all() and weight.grad.isfinite().all()
    third = square(torch.ones(3))
    assert first.isnan().all() and weight.grad.isnan().all() and third.isfinite().all()
    assert generations.begun == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "flags"),
    [
        (8, ["--batch-size", 2]),
        (2, ["--checkpoint-activations", *VALIDATED]),
        (2, ["--bf16", "--clip-norm", 0.5, "--optimizer", "fused_adamw"]),
        (2, ["--arch", "mlm_tiny", "--criterion", "masked_lm", *VALIDATED]),
    ],
)
def test_losses_are_eagers(steps, flags, generations, corpus, tmp_path):
    flags = [*PLAIN, "--update-freq", steps, *flags]
    flags = pretraining(corpus, tmp_path / "eager", *flags)
    if "--valid-subset" in flags:
        flags.remove("--disable-validation")
    eager, graphs = train(*flags), train(*flags, "--save-dir", tmp_path / "graphs", "--cuda-graph")
    assert generations.begun >= 6 * steps and len(eager.updates) == 6
    tolerance = 0.03 if "--bf16" in flags else 2e-3
    for figure in ("loss", "gnorm"):
        assert graphs.values(figure) == pytest.approx(eager.values(figure), rel=tolerance)
    assert graphs.values("loss", "valid") == pytest.approx(eager.values("loss", "valid"), rel=tolerance)
    assert len(graphs.values("loss", "valid")) == (3 if "--valid-subset" in flags else 0)


@pytest.mark.slow
def test_losses_on_two_workers_are_eagers(corpus, tmp_path):
    """By DistributedDataParallel, fairseq's default, which adds the gradients of workers in the last of
    two steps."""
    flags = [*PLAIN, "--update-freq", 2, "--batch-size", 4, "--max-update", 3]
    modes = {"eager": [], "compile": ["--compile"], "graphs": ["--cuda-graph"]}
    eager, *others = train_on_two(*(pretraining(corpus, tmp_path / m, *flags, *f) for m, f in modes.items()))
    for run in others:
        assert run.values("loss") == pytest.approx(eager.values("loss"), rel=2e-3)
        assert run.values("gnorm") == pytest.approx(eager.values("gnorm"), rel=2e-3)
    assert len(eager.updates) == 3 and eager.values("bsz")[1:] == [16, 16]
