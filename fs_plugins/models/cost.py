"""What training a model costs: its parameters, and FLOPs by the lengths of samples.

FLOPs are those of the matrix products, two a multiplication with addition, three times the forward pass.
Each layer counts at all of its tokens, for all models alike, although ExLM's last one is computed at the
nodes only.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from torch import nn
from torch._subclasses import FakeTensorMode

from fs_plugins.models.flags import add_flags


@dataclass(frozen=True)
class Cost:
    """Parameters and FLOPs of a training run."""

    parameters: int  # number of the model's parameters
    tokens: np.ndarray  # [samples] tokens that the encoder's last layers see
    flops: float  # mean over samples, in training


def cost_of(words: list[str], V: int, T: np.ndarray, p: float, transitions: bool = True) -> Cost:
    """Returns the cost of a training.

    Args:
        words: of a call of fairseq-train, ``--arch`` among them.
        V: entries of the dictionary, ``<mask>`` included.
        T: [samples] tokens of each, with its ``<s>`` and ``</s>``, before expansion or repetition.
        p: proportion of the tokens that are masked.
        transitions: whether the graph of an ExLM is trained.
    """
    args, T = arguments(words), T.astype(np.float64)  # products overflow the int32 of fairseq's sizes
    model, d, ffn = _built(args, V), args.encoder_embed_dim, args.encoder_ffn_embed_dim
    encoder, layers = model.encoder, len(model.encoder.sentence_encoder.layers)
    k, exlm, copies = getattr(encoder, "k", 1), hasattr(encoder, "k"), args.repeat_times

    targets = p * T * copies + 2 * exlm  # masked tokens; for ExLM with <s> and </s>
    tokens = T * copies + targets * (k - 1)
    outputs = targets * k  # nodes with scores of the vocabulary
    products = outputs * d * (d + V) + layers * tokens * (4 * d * d + 2 * d * ffn + 2 * tokens * d)
    if exlm and transitions:
        linears = encoder.query_linear, encoder.key_linear, encoder.gate_linear
        heads = len(encoder.links_features) * d * sum(linear.out_features for linear in linears)
        products = products + outputs * heads + (outputs**2 / 2) * (d + targets)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Cost(parameters, tokens, float(np.mean(3 * 2 * products)))


def arguments(words: list[str]) -> argparse.Namespace:
    """Returns a model's arguments, by the words of a call that has other flags too."""
    parser = argparse.ArgumentParser(allow_abbrev=False, argument_default=argparse.SUPPRESS, add_help=False)
    parser.add_argument("--arch", required=True, choices=ARCH_MODEL_REGISTRY)
    parser.add_argument("--tokens-per-sample", type=int)
    parser.add_argument("--repeat-times", type=int, default=1)
    arch = parser.parse_known_args(words)[0].arch
    add_flags(parser, ARCH_MODEL_REGISTRY[arch].flags)
    args, _ = parser.parse_known_args(words)
    ARCH_CONFIG_REGISTRY[args.arch](args)
    return args


def _built(args: argparse.Namespace, V: int) -> nn.Module:
    """Returns the model without memory for its weights."""
    dictionary = Dictionary()
    for i in range(V - dictionary.nspecial):
        dictionary.add_symbol(str(i))
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    with FakeTensorMode():  # fairseq's init_bert_params cannot copy tensors of torch.device("meta")
        return ARCH_MODEL_REGISTRY[args.arch].build_model(args, task)
