"""Outputs of a model in a criterion's forward pass, for criteria whose parent does not return them; and sums
of logging outputs."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn


@contextmanager
def recorded_outputs(model: nn.Module) -> Iterator[list[Tensor]]:
    """Yields a list that gets the first output of each forward pass of ``model``, detached."""
    outputs: list[Tensor] = []
    hook = model.register_forward_hook(lambda module, given, output: outputs.append(output[0].detach()))
    try:
        yield outputs
    finally:
        hook.remove()


def totals(logging_outputs: list[dict], *names: str) -> list:
    """Returns the sum of each name over the logging outputs of all workers and steps: numbers, or scalars on
    their device."""
    return [sum(log.get(name, 0) for log in logging_outputs) for name in names]
