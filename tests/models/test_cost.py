"""What a model costs, against models that are built and PyTorch's counter of FLOPs."""

import numpy as np
import pytest
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from lib.command_line import Flags
from lib.files import CONFIGS
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from fs_plugins.exlm.encoder import gather_tokens
from fs_plugins.models.cost import arguments, cost_of
from tests.support import builders

SMALL = "--encoder-layers 3 --encoder-embed-dim 32 --encoder-ffn-embed-dim 48 --encoder-attention-heads 4"
MODELS = sorted((CONFIGS / "model").rglob("*.flags"))


def counted(model, symbols, criterion: str, sample: dict) -> int:
    """FLOPs of a forward pass whose last layer is computed at all tokens."""
    layer = model.encoder.sentence_encoder.layers[-1]
    forward, counter = layer.forward, FlopCounterMode(display=False)

    def at_all_tokens(x, rotation, bias, wanted):
        y = forward(x, rotation, bias)
        return y if wanted is None else gather_tokens(y, wanted)

    layer.forward = at_all_tokens
    with sdpa_kernel(SDPBackend.MATH), counter:
        if criterion.startswith("nat"):
            CRITERION_REGISTRY[criterion](builders.task(symbols))(model, sample)
        else:
            model(**sample["net_input"], masked_tokens=sample["target"] != symbols.pad())
    return counter.get_total_flops()


@pytest.mark.parametrize("more", ["", "--ext-state-num 2 --links-feature feature --untie-weights-roberta"])
@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_cost_of_every_model(path, more):
    flags = Flags.read(path) | Flags.of(f"{SMALL} --max-positions 128 {more}")
    symbols, copies = builders.dictionary(20), 3 if path.stem == "repeated-mlm" else 1
    flags.set("--repeat-times", copies)
    [args, exlm] = arguments(flags.words()), flags.value("--criterion").startswith("nat")
    model = ARCH_MODEL_REGISTRY[args.arch].build_model(args, builders.task(symbols)).eval()
    tokens, targets = builders.sentence(symbols, 14, [2, 5, 9])  # 16 with <s> and </s>
    repeated = tuple(row.repeat_interleave(copies) for row in (tokens, targets))
    flops = counted(model, symbols, flags.value("--criterion"), builders.sample(symbols, [repeated]))
    graph = flags.value("--criterion") == "nat_dag_loss_mlm"
    if graph:  # scores of transitions are computed for all pairs of nodes; those backwards are not counted
        nodes = 5 * args.ext_state_num
        flops += 5 * nodes**2 - nodes**2 * args.encoder_embed_dim  # PyTorch does not count the op
    cost = cost_of(flags.words(), len(symbols), np.array([len(tokens)]), 3 / len(tokens), graph)
    assert cost.flops == pytest.approx(3 * flops, rel=1e-9)
    assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert cost.tokens == len(repeated[0]) + (5 * (args.ext_state_num - 1) if exlm else 0)


def test_lengths_of_32_bits_do_not_overflow():
    """As fairseq has those of molecules: tokens times d^2 pass 2^31 at the paper's size."""
    words = ["--arch", "exlm_smiles"]
    short, long = (cost_of(words, 200, np.array([48, 400], dtype), 0.15) for dtype in (np.int32, np.float64))
    assert short.flops == long.flops
