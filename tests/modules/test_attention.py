"""Self-attention against its definition."""

import math

import pytest
import torch

from fs_plugins.modules.attention import RotarySelfAttention, attention_bias, attention_with_dropout
from fs_plugins.modules.rotary import RotaryEmbedding, rotate_


def attention(d=32, heads=4, dropout=0.0):
    torch.manual_seed(0)
    return RotarySelfAttention(d, heads, dropout, RotaryEmbedding(d // heads)).double().eval()


def coordinates(B, N):
    return torch.stack([torch.arange(N).expand(B, N), torch.randint(0, 4, (B, N))], dim=-1)


def test_equals_its_definition():
    ours, B, N, heads = attention(), 3, 7, 4
    x = torch.randn(B, N, 32, dtype=torch.float64)
    is_token = torch.arange(N) < torch.tensor([[7], [4], [1]])
    rotation = ours.rot_emb.tables(coordinates(B, N), x.dtype)
    split = [p(x).unflatten(-1, (heads, 8))[:, :, None] for p in (ours.q_proj, ours.k_proj)]
    q, k = (rotate_(t.detach(), *rotation)[:, :, 0] for t in split)  # [B, N, H, 8]
    scores = torch.einsum("bnhc,bmhc->bhnm", q * 8**-0.5, k)
    for mask in (None, is_token):
        kept = scores if mask is None else scores.masked_fill(~mask[:, None, None], -math.inf)
        values = ours.v_proj(x).unflatten(-1, (heads, 8))
        y = torch.einsum("bhnm,bmhc->bnhc", kept.softmax(-1), values).flatten(2)
        found = ours(x, rotation, None if mask is None else attention_bias(mask, x.dtype))
        torch.testing.assert_close(found[is_token], ours.out_proj(y)[is_token])


def test_dropout_is_for_training_only():
    ours = attention(dropout=0.5)
    x = torch.randn(1, 5, 32, dtype=torch.float64)
    rotation = ours.rot_emb.tables(coordinates(1, 5), x.dtype)
    assert torch.equal(ours(x, rotation, None), ours(x, rotation, None))
    ours.train()
    assert not torch.equal(ours(x, rotation, None), ours(x, rotation, None))
    ours.dropout = 1.0
    torch.testing.assert_close(ours(x, rotation, None), ours.out_proj.bias.expand(1, 5, 32))


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.99999])
@pytest.mark.parametrize("padded", [False, True])
def test_attention_with_dropout(rate, padded):
    """On a CPU: each weight is dropped, or kept and enlarged; values and gradients."""
    torch.manual_seed(1)
    B, H, R, N = 3, 2, 41, 63  # 15,498 weights, which 16 bits each do not fill words of 64 with
    q, k = torch.randn(B, H, R, 8, dtype=torch.float64), torch.randn(B, H, N, 8, dtype=torch.float64)
    q, k, v = (t.requires_grad_() for t in (q, k, torch.randn(B, H, N, 5, dtype=torch.float64)))
    mask = torch.arange(N) < torch.tensor([[63], [1], [40]]) if padded else None
    bias = attention_bias(mask, torch.float64)
    weights = torch.einsum("bhrc,bhnc->bhrn", q, k) * 8**-0.5
    weights = (weights if mask is None else weights.masked_fill(~mask[:, None, None], -math.inf)).softmax(-1)

    def dropped_weights() -> torch.Tensor:
        torch.manual_seed(2)
        eye = torch.eye(N, dtype=torch.float64).expand(B, H, N, N)
        return attention_with_dropout(q, k, eye, bias, rate)

    real = weights > 0
    kept = (dropped_weights() > 0) & real
    scale = 1 / (1 - min(rate, 1 - 2**-16))
    torch.testing.assert_close(dropped_weights(), weights * kept * scale, rtol=1e-4, atol=0)
    count, share = real.sum().item(), 1 - rate
    spread = 5 * math.sqrt(count * share * rate)
    assert kept.sum().item() == pytest.approx(count * share, abs=spread + 2)

    torch.manual_seed(2)
    y = attention_with_dropout(q, k, v, bias, rate)
    expected = (weights * kept * scale) @ v
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-12)
    incoming = torch.randn_like(y)
    grads = [torch.autograd.grad(out, (q, k, v), incoming, retain_graph=True) for out in (y, expected)]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-9)
