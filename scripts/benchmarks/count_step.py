"""Operators, bytes and matrix products of a training step at a GPU's sizes, counted on fake tensors.

Nothing is computed, so this takes seconds on any machine; it tells what a GPU would be asked for, and not how
long it takes. Bytes are those of all inputs and outputs of operators, views apart; of what is compiled (with
--compile each layer), those of the kernels that the scheduler of PyTorch's compiler makes of it for a CPU; no
code is generated. Attention counts as one operator.

    cd scripts/benchmarks
    python count_step.py                        # exlm_base, 64 x 128 tokens, bfloat16, on a GPU of 80 GB
    python count_step.py --compile --show 20
"""

import argparse
import contextlib
import copy
import logging
import math
from collections import Counter
from unittest import mock

import torch
import torch.nn.functional as F
from bench_step import make_batch, make_dictionary
from functorch.compile import make_boxed_func
from step_costs import OperatorCounter, print_head, size_in_memory
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.replace_random import replace_random_passes
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

ROOM = ("empty", "new_empty", "detach", "_unsafe_view")
PHASES = ("expansion", "encoder", "head and loss", "backward")


class StepCounter(OperatorCounter):
    """Counts by phase, operators that only make room left out.

    Attributes:
        flops: of matrix products, by phase.
        gigabytes: by phase.
        rows: gigabytes by phase and operator.
    """

    def __init__(self):
        super().__init__()
        self.phase, self.flops, self.operators = PHASES[0], Counter(), Counter()
        self.gigabytes, self.rows = Counter(), Counter()

    def add(self, name: str, nbytes: float, flops: float = 0.0, phase: str | None = None) -> None:
        phase = phase or self.phase
        self.operators[phase] += 1
        self.gigabytes[phase] += nbytes / 1e9
        self.rows[phase, name] += nbytes / 1e9
        self.flops[phase] += flops

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "exlm":  # of fake tensors only the shapes are known
            result = func(*args, **(kwargs or {}))
            self.add(str(func), sum(map(size_in_memory, tree_leaves((args, kwargs, result)))))
            return result
        name = func.overloadpacket.__name__
        if name in ("gather", "scatter_", "index_select", "embedding"):  # which read a part of their input
            result = func(*args, **(kwargs or {}))
            few = [t for t in tree_leaves((args, kwargs, result)) if isinstance(t, torch.Tensor)]
            self.add(name, 2 * sum(size_in_memory(t) for t in few if t is not args[0] and t is not result))
            return result
        before, calls = self.nbytes, self.calls.total()
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if self.calls.total() > calls and func.namespace == "aten" and not name.startswith(ROOM):
            self.add(name, self.nbytes - before, product(name, args))
        return result


def product(name: str, args: tuple) -> float:
    """Returns the FLOPs of an operator, if it is a matrix product."""
    of = {"mm": 0, "addmm": 1, "bmm": 0, "baddbmm": 1}.get(name)
    return 0.0 if of is None else 2.0 * math.prod(args[of].shape) * args[of + 1].shape[-1]


class Attention(torch.autograd.Function):
    """Counts as a fused kernel reads and writes: queries, keys, values, outputs, and their gradients."""

    @staticmethod
    def forward(ctx, counter, q, k, v):
        ctx.counter = counter
        ctx.save_for_backward(q, k, v)
        nbytes, flops = 2 * sum(map(size_in_memory, (q, k))), 4.0 * math.prod(q.shape) * k.shape[2]
        counter.add("attention", nbytes, flops)
        ctx.cost = 2 * nbytes, 2.5 * flops
        return torch.empty_like(q)

    @staticmethod
    def backward(ctx, grad):
        ctx.counter.add("attention", *ctx.cost)
        return None, *map(torch.empty_like, ctx.saved_tensors)


class CompiledBytes:
    """A backend of torch.compile that adds up the bytes of kernels, as often as they are called."""

    def __init__(self, fake: FakeTensorMode):
        self.fake, self.kernels, self.nbytes = fake, 0, 0
        names = ("fw_compiler", "bw_compiler", "inference_compiler")
        options = {
            "decompositions": select_decomp_table(),
            "partition_fn": min_cut_rematerialization_partition,
        }
        self.backend = aot_autograd(**dict.fromkeys(names, self.compile), **options)

    @contextlib.contextmanager
    def uncounted(self):
        with _disable_current_modes(), self.fake:
            yield

    def compile(self, module, inputs):
        with self.uncounted():
            mode = torch._guards.detect_fake_mode(inputs)
            lowered = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
            with V.set_fake_mode(mode):
                replace_random_passes(lowered)
            graph = GraphLowering(lowered, inputs, shape_env=mode.shape_env)
            with V.set_graph_handler(graph), V.set_fake_mode(mode), DebugContext():
                graph.run(*inputs)
                graph.init_wrapper_code()
                graph._update_scheduler()
                nbytes, kernels, _ = graph.count_bytes()

        def call(*inputs):
            self.nbytes += nbytes
            self.kernels += len(kernels)
            with self.uncounted():
                return module(*inputs)

        return make_boxed_func(call)


def count(args: argparse.Namespace) -> tuple[StepCounter, CompiledBytes]:
    """Returns what a step costs, and what is compiled of it."""
    from fairseq.models import build_model

    import fs_plugins  # noqa: F401  (registers models)
    from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM
    from fs_plugins.custom_ops import dag_loss
    from fs_plugins.exlm.expansion import Sizes
    from fs_plugins.models import mlm
    from fs_plugins.speed import compilation, dropout, match_scores

    dictionary = make_dictionary(args.vocabulary)
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    batch, criterion = make_batch(args, dictionary), NatDagLossMLM(task)
    flags = {"ext_state_num": args.k, "max_positions": max(2048, args.k * (args.tokens + 1))}
    small = build_model(argparse.Namespace(arch="exlm_tiny", **flags), task)
    sizes = small.encoder.expand(batch["net_input"]["src_tokens"], batch["target"]).sizes
    fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    counter, compiled = StepCounter(), CompiledBytes(fake)
    compile, attention, dropped = torch.compile, F.scaled_dot_product_attention, F.dropout

    def counted_compile(function, **options):
        graphs = compile(function, backend=compiled.backend, dynamic=False)

        def call(*args, **kwargs):
            with compiled.uncounted():
                return graphs(*args, **kwargs)

        return call

    def one_attention(q, k, v, attn_mask=None, dropout_p=0.0):
        if torch.compiler.is_compiling():  # is one kernel there, on CPUs without mask and dropout
            return attention(q, k, v)
        return Attention.apply(counter, q, k, v)

    def one_dropout(x, p=0.5, training=True, inplace=False):  # on CPUs it is three
        if torch.compiler.is_compiling():
            return dropped(x, p, training)
        return torch.native_dropout(x, p, training)[0] if training and p else x

    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (dag_loss, "_compiled", lambda device: True),
            (dropout, "is_fast", lambda *args: False),
            (match_scores, "CHUNK_BYTES", args.memory // match_scores.CUDA_SHARE),
            (compilation, "is_on_gpu", lambda x: True),
            (mlm, "is_on_gpu", lambda x: True),
            (compilation, "no_compiler", lambda: None),
            (Sizes, "of", lambda *args: sizes),
            (torch, "compile", counted_compile),
            (F, "scaled_dot_product_attention", one_attention),
            (F, "dropout", one_dropout),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        stack.enter_context(fake)
        torch.set_default_dtype(torch.bfloat16)  # fake parameters cannot be made half afterwards
        settings = argparse.Namespace(arch=args.arch, mask_prob=args.mask_prob, compile=args.compile, **flags)
        model = build_model(settings, task).train()
        torch.set_default_dtype(torch.float32)
        for part, name in ((batch["net_input"], "src_tokens"), (batch, "target")):
            part[name] = torch.empty_like(part[name])

        def next_phase(*_):
            counter.phase = PHASES[PHASES.index(counter.phase) + 1]

        encoder = model.encoder.sentence_encoder
        encoder.register_forward_pre_hook(next_phase)
        encoder.register_forward_hook(next_phase)
        with counter:
            loss, sample_size, _ = criterion(model, batch)
            next_phase()
            (loss / sample_size).backward()
    return counter, compiled


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--arch", default="exlm_base")
    add("--batch-size", type=int, default=64)
    add("--tokens", type=int, default=128)
    add("--mask-prob", type=float, default=0.15)
    add("--k", type=int, default=4)
    add("--vocabulary", type=int, default=50265)
    add("--memory", type=int, default=85 * 10**9, help="bytes of the GPU's memory")
    add("--compile", action="store_true", help="as with the flag of fairseq-train")
    add("--show", type=int, default=0, metavar="N", help="show the N operators of most bytes, too")
    args = parser.parse_args(argv)
    args.device = "cpu"
    logging.disable(logging.WARNING)
    counter, compiled = count(args)
    print_head(
        "count_step.py", argv, "cpu", f"{args.arch}, {args.batch_size} x {args.tokens} tokens, bfloat16"
    )
    print("| phase | operators | GB | TFLOP of products |\n|---|---|---|---|")
    for phase in PHASES:
        figures = counter.operators[phase], counter.gigabytes[phase], counter.flops[phase] / 1e12
        print(f"| {phase} | {figures[0]:,} | {figures[1]:.1f} | {figures[2]:.2f} |")
    if compiled.kernels:
        print(f"| compiled | {compiled.kernels:,} | {compiled.nbytes / 1e9:.1f} | |")
    total = counter.gigabytes.total() + compiled.nbytes / 1e9
    operators, gigabytes = counter.operators.total() + compiled.kernels, f"{total:.1f}"
    print(f"| all | {operators:,} | {gigabytes} | {counter.flops.total() / 1e12:.2f} |")
    for (phase, name), gigabytes in counter.rows.most_common(args.show):
        print(f"    {gigabytes:6.2f} GB {phase}: {name}")


if __name__ == "__main__":
    main()
