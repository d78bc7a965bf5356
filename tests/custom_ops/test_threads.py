"""The op on several threads, among which sentences are shared out: the same bits as on one."""

import pytest
import torch

from fs_plugins.custom_ops.dag_loss import dag_loss
from tests import oracles
from tests.custom_ops.test_dag_loss import gradients


@pytest.fixture
def on_threads():
    before = torch.get_num_threads()

    def call(threads: int, function, *arguments):
        torch.set_num_threads(threads)
        return function(*arguments)

    yield call
    torch.set_num_threads(before)


def batch(B: int, M: int, L: int, dtype):
    """Graphs of different sizes, some edges missing; one is peaked, and of more than two one has no path.

    The largest is work of milliseconds: of less, one thread does all before a busy machine starts another.
    """
    match, links = (t.to(dtype) for t in oracles.random_graph(B, M, L, seed=B, missing=0.2))
    n, m = L - torch.arange(B) % 5, M - torch.arange(B) % 3
    match[B // 2] *= 400
    n[-1] = m[-1] - 1 if B > 2 else n[-1]
    return match, links, n, m


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("B", "M", "L"), [(1, 5, 12), (2, 9, 40), (3, 7, 21), (7, 12, 60), (48, 40, 160)])
def test_two_and_three_threads_give_the_bits_of_one(B, M, L, dtype, on_threads):
    arguments = dag_loss, *batch(B, M, L, dtype), torch.arange(1, B + 1, dtype=dtype)
    one = on_threads(1, gradients, *arguments)
    assert one[0].isfinite().sum() == B - (B > 2)
    for threads in (2, 3):
        for _ in range(5):  # which thread takes which sentence changes
            for alone, shared in zip(one, on_threads(threads, gradients, *arguments), strict=True):
                assert torch.equal(alone, shared)
