"""What only a GPU can show of the DAG op: streams, on which nothing waits, devices, sizes."""

import pytest
import torch

from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.exlm.alignment import dag_loss_reference
from tests import oracles
from tests.custom_ops.test_dag_loss import gradients

# skipped where the fixture has no GPU
pytestmark = [pytest.mark.cuda, pytest.mark.parametrize("device", ["cuda"], indirect=True)]
pytestmark += [pytest.mark.usefixtures("device")]


def graph(B, M, L, seed=0):
    """Arguments of dag_loss on the GPU: a whole sentence, and shorter ones."""
    match, links = oracles.random_graph(B, M, L, seed=seed, dtype=torch.float32, missing=0.1)
    n = torch.tensor([L if b == 0 else max(M, L - b * L // (2 * B)) for b in range(B)])
    m = torch.tensor([M if b == 0 else max(2, M - b) for b in range(B)])
    return [t.to("cuda") for t in (match, links, n, m)]


# below, at and beyond the edges of warps
SIZES = [(2, 2), (3, 9), (5, 31), (32, 32), (7, 33), (21, 84), (60, 127), (30, 129), (50, 193), (20, 225)]
SIZES += [(20, 257), (77, 316), (40, 352), (40, 353), (9, 700), (5, 1100), (4, 4096)]


@pytest.mark.parametrize(("M", "L"), SIZES)
def test_equals_the_cpu_op(M, L):
    arguments = graph(3 if L < 1000 else 1, M, L, seed=L)
    weights = torch.tensor([1.0, -1.0, 0.0])[: len(arguments[0])]
    log_prob, *grads = gradients(dag_loss, *arguments, weights.to("cuda"))
    match, links, n, m = (t.cpu() for t in arguments)
    expected, *others = gradients(dag_loss, match.double(), links.double(), n, m, weights.double())
    torch.testing.assert_close(log_prob.cpu().double(), expected, rtol=2e-6, atol=0)
    torch.testing.assert_close(grads, others, rtol=0, atol=5e-5, check_dtype=False, check_device=False)


def test_float64_is_computed_by_the_reference():
    arguments = [t.double() if t.is_floating_point() else t for t in graph(3, 5, 31)]
    for a, b in zip(gradients(dag_loss, *arguments), gradients(dag_loss_reference, *arguments), strict=True):
        assert a.dtype == torch.float64 and torch.equal(a, b)


@pytest.mark.parametrize(("M", "L"), [(21, 84), (20, 1500)])
def test_works_on_the_current_stream(M, L):
    """On another stream, behind a kernel that takes long: the inputs are there only once that is done."""
    arguments = graph(4, M, L)
    expected = gradients(dag_loss, *arguments)
    late = [torch.zeros_like(t) for t in arguments]
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        # fills the stream's memory pool: an allocation of the device's may wait for it
        gradients(dag_loss, *arguments)
        stream.synchronize()
        torch.cuda._sleep(200_000_000)
        for empty, full in zip(late, arguments, strict=True):
            empty.copy_(full)
        actual = gradients(dag_loss, *late)
        assert not stream.query(), "the op waited for the device"
    stream.synchronize()
    assert all(map(torch.equal, actual, expected))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_works_on_the_device_of_its_inputs():
    arguments = graph(2, 21, 84)
    elsewhere = [t.to("cuda:1") for t in arguments]
    assert torch.cuda.current_device() == 0
    for a, b in zip(gradients(dag_loss, *arguments), gradients(dag_loss, *elsewhere), strict=True):
        assert b.device.index == 1 and torch.equal(a.cpu(), b.cpu())
