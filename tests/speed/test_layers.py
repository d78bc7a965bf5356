"""What a layer keeps, and its dropout; tests/huggingface has an attention of its own to compare with."""

import math

import pytest
import torch

from fs_plugins.exlm.encoder import Attention, EncoderLayer, attention_bias
from fs_plugins.exlm.rotary import RotaryEmbedding
from fs_plugins.exlm.settings import Settings
from fs_plugins.speed import accelerate
from fs_plugins.speed.dropout import Dropout, attention_with_dropout


def test_dropout_is_for_training_only():
    torch.manual_seed(0)
    settings = Settings(hidden_size=32, num_attention_heads=4, attention_probs_dropout_prob=0.5)
    ours, x = accelerate(Attention(settings)).eval(), torch.randn(1, 5, 32)
    rotation = RotaryEmbedding(8)(torch.arange(10).view(1, 5, 2), x.dtype)
    assert torch.equal(ours(x, rotation, None), ours(x, rotation, None))
    ours.train()
    assert not torch.equal(ours(x, rotation, None), ours(x, rotation, None))
    ours.dropout.p = 1.0
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
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-9)
    with torch.autocast("cpu"):  # computed as without it
        torch.manual_seed(2)
        again = attention_with_dropout(q, k, v, bias, rate)
    again.backward(incoming)
    assert torch.equal(again, y) and torch.equal(v.grad, grads[0][2])


@pytest.mark.parametrize("rate", [0.1, 0.7])
def test_dropout_on_a_cpu(rate):
    """An element is dropped, or kept and enlarged; its gradient likewise."""
    torch.manual_seed(1)
    x, dropout = torch.rand(301, 99).add(1).requires_grad_(), Dropout(rate)
    y = dropout(x)
    kept = y > 0
    torch.testing.assert_close(y, x * kept / (1 - rate), rtol=1e-4, atol=0)
    spread = 5 * math.sqrt(x.numel() * rate * (1 - rate))
    assert int(kept.sum()) == pytest.approx(x.numel() * (1 - rate), abs=spread)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, kept / (1 - rate), rtol=1e-4, atol=0)
    assert torch.equal(dropout.eval()(x), x)


def test_activations_are_computed_again():
    """And change neither result nor gradients; hooks of both projections are called."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 40}
    x, results, called = torch.randn(2, 5, 12, requires_grad=True), [], []
    plain, lean = EncoderLayer(Settings(**sizes)), accelerate(EncoderLayer(Settings(**sizes)))
    lean.load_state_dict(plain.state_dict())
    for layer in (plain, lean):
        kept = []
        for projection in (layer.fc1, layer.fc2):
            projection.register_forward_hook(lambda part, *_: called.append(part))
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t, kept=kept: kept.append(t.shape) or t, lambda t: t
        ):
            y = layer.train().feed_forward(x)
        results.append((y, *torch.autograd.grad(y.square().sum(), [x, *layer.fc1.parameters()])))
        assert {layer.fc1, layer.fc2} <= {*called}
        assert kept.count((2, 5, 40)) + kept.count((10, 40)) == (2 if layer is plain else 1)
    torch.testing.assert_close(*results)
