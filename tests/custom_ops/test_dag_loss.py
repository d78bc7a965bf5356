"""The DAG op, compiled and reference, against enumeration of all paths; test_dag_cuda.py compares GPUs."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.exlm.alignment import dag_loss_reference
from tests import oracles

lengths = torch.tensor  # of sentences


@pytest.fixture(params=[dag_loss, dag_loss_reference], ids=["compiled", "reference"])
def loss(request):
    return request.param


def gradients(loss, match, links, n, m, weights=None):
    match, links = match.detach().requires_grad_(), links.detach().requires_grad_()
    log_prob = loss(match, links, n, m)
    log_prob.backward(torch.ones_like(log_prob) if weights is None else weights)
    unused = torch.zeros_like(links)  # one target: the reference passes no edge at all
    return log_prob.detach(), match.grad, unused if links.grad is None else links.grad


def drawn_graph(data, B):
    """match, links, node lengths and target lengths of B sentences, in float64, some without a path."""
    L, M = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    scale = data.draw(st.sampled_from([0.1, 1.0, 30.0, 300.0]))
    seed, missing = data.draw(st.integers(0, 10**6)), data.draw(st.sampled_from([0.0, 0.3, 0.8]))
    match, links = oracles.random_graph(B, M, L, seed=seed, scale=scale, missing=missing)
    n = lengths(data.draw(st.lists(st.integers(0, L), min_size=B, max_size=B)))
    m = lengths(data.draw(st.lists(st.integers(0, M), min_size=B, max_size=B)))
    return match, links, n, m


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_drawn_graphs_equal_enumeration(data):
    match, links, n, m = drawn_graph(data, data.draw(st.integers(1, 3)))
    if data.draw(st.booleans()):  # non-contiguous views of the same values
        match = match.transpose(1, 2).contiguous().transpose(1, 2)
        links = torch.stack([links, links], dim=-1)[..., 0]
    log_probs, *posteriors = oracles.dag_loss(match, links, n, m)
    weights = torch.tensor([-2.5, 1.0, 0.0], dtype=torch.float64)[: len(n)]
    expected = [posterior * weights[:, None, None] for posterior in posteriors]
    for loss in (dag_loss, dag_loss_reference):
        found, *grads = gradients(loss, match, links, n, m, weights)
        torch.testing.assert_close(found, log_probs, rtol=1e-12, atol=1e-10)
        torch.testing.assert_close(grads, expected, rtol=0, atol=1e-9)


PEAKED = [(4, 9, 1), (21, 84, 2), (21, 84, 3), (30, 33, 4), (77, 100, 5)]


def peaked_graph(M, L, seed):
    """Probabilities of 1 beside e^-300 everywhere, and missing edges."""
    generator = torch.Generator().manual_seed(seed)
    match = torch.where(torch.rand(4, M, L, generator=generator) < 0.2, -1e-3, -300.0).double()
    links = torch.where(torch.rand(4, L, L, generator=generator) < 0.1, -1e-3, -300.0).double()
    missing = torch.rand(4, L, L, generator=generator) < 0.3
    near = torch.ones(L, L, dtype=torch.bool).triu(1).tril(2)  # short edges stay, so that long paths exist
    links.masked_fill_(missing & ~near, -math.inf)
    match += torch.rand(4, M, L, generator=generator) * 0.1
    links += torch.rand(4, L, L, generator=generator) * 0.1
    return match.float(), links.float()


@pytest.mark.parametrize(("M", "L", "seed"), PEAKED)
def test_peaked_inputs_in_float32_against_float64(loss, device, M, L, seed, sharp=None):
    match, links = peaked_graph(M, L, seed)
    n, m = lengths([L, L - 1, L, max(M, L - 2)]), lengths([M, M, M - 1, M])
    log_prob, *posteriors = gradients(loss, *(t.to(device) for t in (match, links, n, m)))
    expected, *truths = gradients(dag_loss_reference, match.double(), links.double(), n, m)
    assert torch.isfinite(expected).any()
    others = {"check_dtype": False, "check_device": False}
    sums_in_double = loss is dag_loss and device.type == "cpu" if sharp is None else sharp
    rtol = 1e-6 if sums_in_double else 1e-5
    torch.testing.assert_close(log_prob, expected, rtol=rtol, atol=0, **others)
    # else float32 holds -3000 to 2e-4 only
    tolerance = {"rtol": 1e-5, "atol": 1e-7} if sums_in_double else {"rtol": 0, "atol": 2e-3}
    torch.testing.assert_close(posteriors, truths, **tolerance, **others)


def test_only_path_runs_through_vanishing_edges(loss, device):
    """A second path of probability about 1 must not hide one that is e^-900 of it but the only one to the
    end."""
    L = 6
    match = torch.zeros(1, 4, L)
    links = torch.full((1, L, L), -math.inf)
    links[0, 0, 1], links[0, 0, 3] = -900.0, 0.0
    links[0, 1, 2], links[0, 3, 4] = -0.5, 0.0
    links[0, 2, 5] = -0.25  # 0 1 2 5 is the only way to the end
    arguments = (t.to(device) for t in (match, links, lengths([6]), lengths([4])))
    log_prob, grad_match, grad_links = gradients(loss, *arguments)
    assert log_prob.item() == pytest.approx(-900.75)
    rounding = 1e-6 if device.type == "cuda" else 0  # ex2.approx is good to 2 units in the last place
    posteriors = [grad_match[0, i, u].item() for i, u in enumerate((0, 1, 2, 5))]
    assert posteriors == pytest.approx([1.0] * 4, abs=rounding)
    assert grad_links.sum().item() == pytest.approx(3.0, abs=3 * rounding)


def test_padding_is_never_read(loss, device):
    match, links = oracles.random_graph(2, 5, 9, seed=1, dtype=torch.float32)
    n, m = lengths([6, 9], device=device), lengths([3, 5], device=device)
    clean = gradients(loss, match.to(device), links.to(device), n, m)
    for padding in (17.0, math.nan):
        match[0, 3:], match[0, :, 6:] = padding, -padding
        links[0, 6:], links[0, :, 6:] = padding, padding
        links.masked_fill_(torch.ones(9, 9, dtype=torch.bool).tril(), 8.0)
        dirty = gradients(loss, match.to(device), links.to(device), n, m)
        assert all(map(torch.equal, clean, dirty))
        assert not dirty[1][0, 3:].any() and not dirty[1][0, :, 6:].any() and not dirty[2][0, 6:].any()


@pytest.mark.parametrize("where", ["match", "links"])
def test_nan_is_not_hidden(loss, device, where):
    match, links = oracles.random_graph(2, 3, 6, seed=2, dtype=torch.float32)
    {"match": match[0, 1, 2], "links": links[0, 0, 2]}[where].fill_(math.nan)
    arguments = (t.to(device) for t in (match, links, lengths([6, 6]), lengths([3, 3])))
    log_prob, grad_match, _ = gradients(loss, *arguments)
    assert math.isnan(log_prob[0].item()) and math.isfinite(log_prob[1].item())
    assert torch.isnan(grad_match[0]).any() and torch.isfinite(grad_match[1]).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_is_computed_in_float32(device, dtype):
    match, links = oracles.random_graph(2, 4, 8, seed=4, dtype=dtype)
    n, m = lengths([8, 7], device=device), lengths([4, 4], device=device)
    low = gradients(dag_loss, match.to(device), links.to(device), n, m)
    full = gradients(dag_loss, match.float().to(device), links.float().to(device), n, m)
    assert low[0].dtype == torch.float32 and torch.equal(low[0], full[0])
    assert low[1].dtype == dtype and torch.equal(low[1], full[1].to(dtype))


def test_large_batch_uses_every_sentence_once(device):
    match, links = oracles.random_graph(37, 21, 84, seed=6, dtype=torch.float32, missing=0.1)
    n, m = torch.randint(60, 85, (37,)), torch.randint(2, 22, (37,))
    batch = gradients(dag_loss, *(t.to(device) for t in (match, links, n, m)))
    for b in (0, 17, 36):
        alone = gradients(dag_loss, *(t[b : b + 1].to(device) for t in (match, links, n, m)))
        for together, single in zip(batch, alone, strict=True):
            assert torch.equal(together[b], single[0])
    again = gradients(dag_loss, *(t.to(device) for t in (match, links, n, m)))
    assert all(map(torch.equal, batch, again))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("B", "M", "L"), [(1, 5, 12), (2, 9, 40), (3, 7, 21), (7, 12, 60), (48, 40, 160)])
def test_two_and_three_threads_give_the_bits_of_one(B, M, L, dtype, monkeypatch):
    """Graphs of different sizes, some edges missing; one is peaked, and of more than two one has no path.

    The largest is work of milliseconds: of less, one thread does all before a busy machine starts another.
    """
    match, links = (t.to(dtype) for t in oracles.random_graph(B, M, L, seed=B, missing=0.2))
    n, m = L - torch.arange(B) % 5, M - torch.arange(B) % 3
    match[B // 2] *= 400
    n[-1] = m[-1] - 1 if B > 2 else n[-1]
    arguments = dag_loss, match, links, n, m, torch.arange(1, B + 1, dtype=dtype)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    one = gradients(*arguments)
    assert one[0].isfinite().sum() == B - (B > 2)
    for threads in (2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        for _ in range(5):  # which thread takes which sentence changes
            assert all(map(torch.equal, one, gradients(*arguments)))


def test_opcheck(device):
    match, links = oracles.random_graph(2, 3, 6, seed=8, dtype=torch.float32)
    arguments = [t.to(device) for t in (match, links, lengths([6, 5]), lengths([3, 2]))]
    torch.library.opcheck(torch.ops.exlm.dag_forward, arguments)
    alpha = torch.ops.exlm.dag_forward(*arguments)[1]
    torch.library.opcheck(torch.ops.exlm.dag_backward, (torch.ones(2, device=device), *arguments, alpha))


@pytest.mark.parametrize("compiled", [True, False])
def test_arguments_beyond_which_a_kernel_would_read(monkeypatch, compiled):
    monkeypatch.setattr("fs_plugins.custom_ops.dag_loss._compiled", lambda device: compiled)
    n, m, links = lengths([6, 6]), lengths([3, 3]), torch.zeros(2, 6, 6)
    for wrong in ((links[:, :, :5], n, m), (links, lengths([7, 6]), m), (links, n, lengths([-1, 3]))):
        with pytest.raises(ValueError):
            dag_loss(torch.zeros(2, 3, 6), *wrong)
