"""The encoder: pre- and post-norm, dropout, activation checkpointing."""

import pytest
import torch
import torch.nn.functional as F

from fs_plugins.exlm.encoder import Encoder
from fs_plugins.exlm.settings import MLMSettings

SIZES = {"encoder_layers": 3, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24}
SIZES |= {"encoder_attention_heads": 2, "vocab_size": 11, "dropout": 0.0, "attention_dropout": 0.0}


def encoder(**changes):
    torch.manual_seed(0)
    return Encoder(MLMSettings(**{**SIZES, **changes}))


def batch():
    tokens = torch.tensor([[0, 5, 6, 7, 2], [0, 8, 2, 1, 1]])
    coordinates = torch.stack([torch.arange(5).expand(2, 5), tokens % 3], dim=-1)
    return tokens, coordinates, tokens.ne(1)


def plain_layer(layer, x, rotation, attend, pre_norm, dropout, activation_dropout):
    """The layer by its definition, in training."""

    def attention(y):
        return dropout(layer.self_attn(y, rotation, attend))

    def feed_forward(y):
        return dropout(layer.fc2(activation_dropout(F.gelu(layer.fc1(y)))))

    if pre_norm:
        x = x + attention(layer.self_attn_layer_norm(x))
        return x + feed_forward(layer.final_layer_norm(x))
    x = layer.self_attn_layer_norm(x + attention(x))
    return layer.final_layer_norm(x + feed_forward(x))


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.3, 0.0), (0.0, 0.3), (0.2, 0.4)])
def test_equals_its_definition(pre_norm, rates):
    """Dropout stands after the embedding, each block and the activation."""
    flags = {"dropout": rates[0], "activation_dropout": rates[1]}
    model = encoder(encoder_normalize_before=pre_norm, **flags).train()
    tokens, coordinates, is_token = batch()
    dropouts = [torch.nn.Dropout(rate) for rate in rates]
    torch.manual_seed(5)
    x = dropouts[0](model.embed_tokens(tokens))
    rotation = model.rotary(coordinates, torch.float32)
    for layer in model.layers:
        x = plain_layer(layer, x, rotation, is_token[:, None, None], pre_norm, *dropouts)
    torch.manual_seed(5)
    torch.testing.assert_close(model(tokens, coordinates, is_token), x)


def test_activation_checkpointing_changes_nothing():
    found = []
    for recomputes in (False, True):
        model, calls = encoder(dropout=0.3, attention_dropout=0.2, activation_dropout=0.1).train(), []
        model.gradient_checkpointing = recomputes
        for i, layer in enumerate(model.layers):
            layer.register_forward_pre_hook(lambda *_, i=i, calls=calls: calls.append(i))
        torch.manual_seed(3)
        features = model(*batch(), queries=torch.tensor([[0, 3, 1], [2, 2, 4]]))
        features.square().sum().backward()
        assert calls == [0, 1, 2, *([2, 1, 0] if recomputes else [])]
        found.append((features.detach(), [p.grad for p in model.parameters()]))
    (x, gradients), (y, others) = found
    assert torch.equal(x, y)
    torch.testing.assert_close(gradients, others)
