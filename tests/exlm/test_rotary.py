"""2D RoPE against complex rotations in float64."""

import pytest
import torch

from fs_plugins.exlm.rotary import RotaryEmbedding, rotate


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
    """At as many positions as Repeated MLM has, with 8 copies of 512 tokens."""
    N, rope = 4097, RotaryEmbedding(head_dim, dimensions)
    assert rope.inv_freq.shape == (head_dim // dimensions // 2,)
    index = torch.arange(N)[None]
    coordinates = torch.stack([index, 5 * index % 499][:dimensions], dim=-1)
    x = torch.randn(1, N, 3 * head_dim)
    turned = rotate(x, *rope(coordinates, x.dtype))
    for head, found in zip(x[0].chunk(3, -1), turned[0].double().chunk(3, -1), strict=True):
        expected = rotate_by_complex_numbers(head, coordinates[0])
        torch.testing.assert_close(found[:500], expected[:500], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-3)


def test_half_precision():
    rope = RotaryEmbedding(64)
    exact = rope.inv_freq.clone()
    rope.half()
    assert rope.inv_freq.dtype == torch.float32 and torch.equal(rope.inv_freq, exact)
    cos, _ = rope(torch.tensor([[[400, 0]]]), torch.float16)
    assert cos.dtype == torch.float16
    torch.testing.assert_close(cos[0, 0, 0, 0, 1].float(), (400 * exact).cos(), rtol=0, atol=1e-3)
