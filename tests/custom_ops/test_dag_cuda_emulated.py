"""The CUDA kernels on the CPU (``tests.cuda_emulation``): the cases of the op's own tests, and harder."""

import math
import shutil
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fs_plugins.custom_ops import library
from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.exlm.alignment import dag_loss_reference
from tests import cuda_emulation, oracles
from tests.custom_ops import test_dag_loss as cases
from tests.custom_ops.test_dag_loss import gradients, lengths, peaked_graph

CPU = torch.device("cpu")
LACKING = shutil.which("g++") is None or sys.platform != "linux"
pytestmark = pytest.mark.skipif(LACKING, reason="the emulated kernels need g++ on Linux")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    place = tmp_path_factory.mktemp("emulation") / "libexlm_dag_emulated.so"
    return cuda_emulation.EmulatedKernels(cuda_emulation.build(place))


@pytest.fixture
def emulated(kernels, monkeypatch):
    """The op calls the emulated kernels; emulated(True) reverses the order of threads and blocks."""
    monkeypatch.setattr(library, "load", lambda kind: kernels)
    kernels.reverse(False)
    return kernels.reverse


@pytest.fixture(params=[False, True], ids=["ascending", "reversed"])
def each(request, emulated):
    emulated(request.param)


def truth(match, links, n, m):
    """float64, by the reference."""
    return gradients(dag_loss_reference, match.double(), links.double(), n, m)


def assert_close(actual, expected, rtol, atol):
    """log_prob to rtol, gradients (posteriors of at most 1) to atol."""
    torch.testing.assert_close(actual[0].double(), expected[0], rtol=rtol, atol=atol)
    torch.testing.assert_close(actual[1:], expected[1:], rtol=0, atol=atol, check_dtype=False)


def test_the_ops_own_cases(each):
    for peaked in cases.PEAKED:
        cases.test_peaked_inputs_in_float32_against_float64(dag_loss, CPU, *peaked, sharp=False)
    cases.test_only_path_runs_through_vanishing_edges(dag_loss, CPU)
    cases.test_padding_is_never_read(dag_loss, CPU)
    cases.test_nan_is_not_hidden(dag_loss, CPU, "match")
    cases.test_nan_is_not_hidden(dag_loss, CPU, "links")
    cases.test_large_batch_uses_every_sentence_once(CPU)


def test_drawn_graphs(emulated):
    @settings(deadline=None, max_examples=60)
    @given(data=st.data())
    def draw(data):
        match, links, n, m = cases.drawn_graph(data, data.draw(st.integers(1, 2)))
        arguments = match.float(), links.float(), n, m
        assert_close(gradients(dag_loss, *arguments), oracles.dag_loss(*arguments), rtol=1e-5, atol=2e-3)

    draw()


# around those of warps and groups
SIZES = [(2, 8), (9, 9), (5, 31), (32, 32), (7, 33), (20, 63), (21, 64), (12, 65), (21, 84), (60, 127)]
SIZES += [(4, 128), (30, 129), (3, 257), (77, 316), (3, 400), (2, 1100)]
RANDOM = [(M, L, 1.0, 0.0, 2e-5) for M, L in SIZES]
# within one row some sums are ordinary, some underflow, and some mix
RANDOM += [(M, L, x, 0.0, 1e-4 * x) for M, L in ((24, 100), (9, 316)) for x in (3.0, 8.0, 20.0, 60.0)]
# potentials need not be normalised
RANDOM += [(9, 70, 1.0, shift, 1e-3) for shift in (-300.0, -100.0, 50.0, 300.0)]


@pytest.mark.parametrize(("M", "L", "scale", "shift", "atol"), RANDOM)
def test_random_graphs(each, M, L, scale, shift, atol):
    B = 2 if L <= 400 else 1
    match, links = oracles.random_graph(B, M, L, seed=M * L, dtype=torch.float32, scale=scale, missing=0.1)
    n, m = lengths([L, max(M, L - L // 3)][:B]), lengths([M, max(2, M - 3)][:B])
    arguments = match, links + shift, n, m
    expected = truth(*arguments)
    assert M == L or expected[0][0].isfinite()
    assert_close(gradients(dag_loss, *arguments), expected, 2e-6, atol)


def test_lengths_out_of_range_are_infeasible(each):
    match, links = oracles.random_graph(6, 4, 40, seed=3, dtype=torch.float32)
    n, m = lengths([41, 40, -1, 2**40, 40, 40]), lengths([4, 5, 4, 4, -(2**40), 4])
    log_prob, grad_match, grad_links = gradients(dag_loss, match, links, n, m)
    assert log_prob[:5].tolist() == [-math.inf] * 5 and torch.isfinite(log_prob[5])
    assert not grad_match[:5].any() and not grad_links[:5].any() and grad_match[5].any()


def test_empty_dimensions(each):
    for B, M, L in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        match, links = torch.zeros(B, M, L), torch.zeros(B, L, L)
        n, m = torch.full((B,), L), torch.full((B,), M)
        log_prob, grad_match, grad_links = gradients(dag_loss, match, links, n, m)
        assert log_prob.tolist() == [-math.inf] * B and not grad_match.any() and not grad_links.any()


def test_results_do_not_depend_on_the_order_of_threads(emulated):
    """Bitwise: what a thread reads is always there, and sums are taken in one order."""
    n, m = lengths([84, 83, 84, 60]), lengths([21, 21, 20, 18])
    for graph in (peaked_graph(21, 84, 7), oracles.random_graph(4, 21, 84, seed=1, dtype=torch.float32)):
        emulated(False)
        first = gradients(dag_loss, *graph, n, m)
        emulated(True)
        assert all(map(torch.equal, first, gradients(dag_loss, *graph, n, m)))


def test_edges_that_underflow_carry_their_share(each):
    """Two ways to the end, one through an edge of e^-150: it counts where it leads from the likelier node."""
    match, links = torch.zeros(1, 3, 40), torch.full((1, 40, 40), -math.inf)
    match[0, 1, 1], match[0, 1, 35] = 0.0, -150.0
    links[0, 0, 1], links[0, 0, 35] = -1.0, -1.0
    links[0, 1, 39], links[0, 35, 39] = -150.0, -0.5
    actual = gradients(dag_loss, match, links, lengths([40]), lengths([3]))
    expected = truth(match, links, lengths([40]), lengths([3]))
    assert 0.3 < expected[2][0, 1, 39] < 0.7
    assert_close(actual, expected, rtol=1e-6, atol=1e-5)


def test_nan_off_all_paths_is_harmless(each):
    match, links = oracles.random_graph(1, 4, 70, seed=13, dtype=torch.float32)
    links[0, :, 5] = -math.inf  # no way to node 5
    clean = gradients(dag_loss, match, links, lengths([70]), lengths([4]))
    links[0, 5, 40:] = math.nan
    match[0, 1:, 5] = math.nan
    dirty = gradients(dag_loss, match, links, lengths([70]), lengths([4]))
    torch.testing.assert_close(dirty, clean, rtol=1e-6, atol=1e-6)


def test_large_and_small_incoming_gradients(each):
    match, links = peaked_graph(21, 84, 3)
    n, m, weights = lengths([84] * 4), lengths([21] * 4), torch.tensor([2.0**24, 1e-20, -3.0, 0.0])
    one = gradients(dag_loss, match, links, n, m)
    scaled = gradients(dag_loss, match, links, n, m, weights)
    for a, b in zip(one[1:], scaled[1:], strict=True):
        torch.testing.assert_close(b, a * weights[:, None, None], rtol=1e-6, atol=0)


@pytest.mark.parametrize("v", [8, 64, 120])
def test_nan_alone_among_the_edges_of_a_group(each, v):
    """Of the nodes v - v % 8 ... that one lane takes together, v alone has an edge to u = v + 1."""
    match, links = oracles.random_graph(1, 130, 130, seed=14, dtype=torch.float32)
    match, n, m = match[:, :90], lengths([130]), lengths([90])
    links[0, v, v + 1] = math.nan
    assert torch.isnan(dag_loss(match.contiguous(), links, n, m)).all()
