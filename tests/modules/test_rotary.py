"""2D RoPE against complex rotations in float64."""

import pytest
import torch

from fs_plugins.modules.rotary import RotaryEmbedding, rotate_


def rotate_by_complex_numbers(x, first, second):
    """x [N, head_dim], coordinates [N]: each half as complex numbers times e^(i * coordinate * frequency)."""
    halves = []
    for half, coordinate in zip(x.double().chunk(2, dim=-1), (first, second), strict=True):
        h = half.shape[-1]
        frequencies = torch.tensor([10000.0 ** (-2 * j / h) for j in range(h // 2)], dtype=torch.float64)
        turned = torch.complex(half[:, : h // 2], half[:, h // 2 :])
        turned = turned * torch.polar(torch.ones(1, dtype=torch.float64), coordinate[:, None] * frequencies)
        halves.append(torch.cat([turned.real, turned.imag], dim=-1))
    return torch.cat(halves, dim=-1)


@pytest.mark.parametrize("head_dim", [4, 8, 12, 64])
def test_equals_complex_rotation(head_dim):
    N = 9
    first, second = torch.randint(0, 500, (1, N)), torch.randint(0, 5, (1, N))
    x = torch.randn(1, N, 2, 3, head_dim)
    turned = rotate_(
        x.clone(), *RotaryEmbedding(head_dim).tables(torch.stack([first, second], dim=-1), x.dtype)
    )
    for role in range(2):
        for head in range(3):
            expected = rotate_by_complex_numbers(x[0, :, role, head], first[0].double(), second[0].double())
            torch.testing.assert_close(turned[0, :, role, head].double(), expected, rtol=1e-4, atol=1e-4)


def test_tables_are_exact_up_to_4096_positions():
    """As many as Repeated MLM has, with 8 copies of 512 tokens."""
    index = torch.arange(4097)
    tables = RotaryEmbedding(64).tables(torch.stack([index, index.flip(0)], dim=-1)[None], torch.float32)
    frequencies = 10000.0 ** (-torch.arange(0, 32, 2, dtype=torch.float64) / 32)
    for half, coordinate in enumerate((index, index.flip(0))):
        angles = coordinate.double()[:, None] * frequencies
        for table, exact in zip(tables, (angles.cos(), angles.sin()), strict=True):
            torch.testing.assert_close(table[0, :, 0, 0, half, 1].double(), exact, rtol=0, atol=1e-3)


def test_state_dict_and_half_precision():
    rope = RotaryEmbedding(64)
    assert {name: tuple(t.shape) for name, t in rope.state_dict().items()} == {"inv_freq": (16,)}
    exact = rope.inv_freq.clone()
    rope.half()
    assert rope.inv_freq.dtype == torch.float32 and torch.equal(rope.inv_freq, exact)
    cos, _ = rope.tables(torch.tensor([[[400, 0]]]), torch.float16)
    assert cos.dtype == torch.float16
    torch.testing.assert_close(cos[0, 0, 0, 0, 0, 1].float(), (400 * exact).cos(), rtol=0, atol=1e-3)


def test_one_dimension_turns_the_whole_head():
    x, index = torch.randn(1, 5, 1, 1, 8), torch.tensor([[0, 1, 5, 9, 300]])
    rope = RotaryEmbedding(8, dimensions=1)
    assert rope.inv_freq.shape == (4,)
    turned = rotate_(x.clone(), *rope.tables(index[..., None], x.dtype)).flatten(2)[0]
    pairs = torch.complex(x.flatten(2)[0, :, :4].double(), x.flatten(2)[0, :, 4:].double())
    angles = index[0, :, None].double() * 10000.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    expected = pairs * torch.polar(torch.ones_like(angles), angles)
    torch.testing.assert_close(
        turned.double(), torch.cat([expected.real, expected.imag], -1), rtol=1e-4, atol=1e-4
    )
