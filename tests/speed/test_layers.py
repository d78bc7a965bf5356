"""What a layer keeps for its backward pass."""

import torch

from fs_plugins.exlm.encoder import EncoderLayer
from fs_plugins.exlm.settings import Settings
from fs_plugins.speed import accelerate


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
