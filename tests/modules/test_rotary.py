"""2D RoPE against complex rotations in float64."""

import pytest
import torch

from fs_plugins.modules.rotary import RotaryEmbedding, rotate_


def rotate_by_complex_numbers(x, coordinates):
    """x [N, head_dim], coordinates [N, dimensions]: each part of the head as complex numbers times
    e^(i * coordinate * frequency)."""
    turned = []
    for part, coordinate in zip(x.double().chunk(coordinates.shape[1], dim=-1), coordinates.T, strict=True):
        h = part.shape[-1]
        frequencies = torch.tensor([10000.0 ** (-2 * j / h) for j in range(h // 2)], dtype=torch.float64)
        angles = coordinate.double()[:, None] * frequencies
        numbers = torch.complex(part[:, : h // 2], part[:, h // 2 :]) * torch.polar(angles * 0 + 1, angles)
        turned += [numbers.real, numbers.imag]
    return torch.cat(turned, dim=-1)


@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.parametrize("head_dim", [4, 8, 12, 64])
def test_equals_complex_rotation(head_dim, dimensions):
    N, rope = 9, RotaryEmbedding(head_dim, dimensions)
    assert rope.inv_freq.shape == (head_dim // dimensions // 2,)
    coordinates = torch.stack([torch.randint(0, most, (1, N)) for most in (500, 5)[:dimensions]], dim=-1)
    x = torch.randn(1, N, 2, 3, head_dim)
    turned = rotate_(x.clone(), *rope.tables(coordinates, x.dtype))
    for role in range(2):
        for head in range(3):
            expected = rotate_by_complex_numbers(x[0, :, role, head], coordinates[0])
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
