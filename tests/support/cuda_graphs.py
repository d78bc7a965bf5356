"""CUDA graphs on a CPU: what is compiled for them keeps its outputs only until the next generation.

``torch.compile(mode="reduce-overhead")`` records the graphs of a step into memory that the next step's record
or replay uses again. A generation begins with a forward pass that no backward pass is pending for; here it
fills what the last one has given with ones in all bits, which are NaN and -1.
"""

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd


class Generations:
    """A backend of torch.compile; PyTorch's own operators run what is compiled.

    Attributes:
        begun: how many generations there were.
    """

    def __init__(self):
        self.begun, self._pending, self._given = 0, False, {}
        kinds = ("forward", "backward", "inference")
        compilers = zip(("fw_compiler", "bw_compiler", "inference_compiler"), kinds, strict=True)
        self.backend = aot_autograd(**{name: self._compiler(kind) for name, kind in compilers})

    def _compiler(self, kind: str):
        def compile(graph, example_inputs):
            def run(*inputs):
                if kind != "backward" and not self._pending:
                    self._begin()
                self._pending = kind == "forward"
                outputs = graph(*inputs)
                kept = {storage(t) for t in inputs if isinstance(t, torch.Tensor)}
                for t in outputs:
                    if isinstance(t, torch.Tensor) and storage(t) not in kept:
                        self._given[storage(t)] = t.untyped_storage()
                return outputs

            return make_boxed_func(run)

        return compile

    @torch.no_grad()
    def _begin(self) -> None:
        self.begun += 1
        for given in self._given.values():
            torch.empty(0, dtype=torch.uint8).set_(given).fill_(255)
        self._given.clear()


def storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def emulate(put=setattr) -> Generations:
    """Puts it in the place of torch.compile, which compiles nothing otherwise; ``put`` sets an attribute."""
    generations, compile = Generations(), torch.compile

    def emulated(function, *, mode=None, **options):
        backend = generations.backend if mode == "reduce-overhead" else "aot_eager"
        return compile(function, backend=backend, **options)

    put(torch, "compile", emulated)
    return generations
