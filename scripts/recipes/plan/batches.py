"""The batch of an update, split over workers and, with --update-freq, over steps that fit a GPU."""

from __future__ import annotations

from recipes.command_line import RecipeError
from recipes.flags import Flags

TOKENS_PER_GPU = 32768  # of a step, after expansion: what 40 GB hold of the base model


def equal_steps(sentences: int, length: int, tokens_per_gpu: int) -> tuple[int, int]:
    """(sentences of a step, steps): a worker's share of an update in the fewest equal steps that fit.

    Args:
        sentences: of the share.
        length: tokens of a sentence, after expansion.
    """
    divisors = (n for n in range(1, sentences) if sentences % n == 0)
    steps = next((n for n in divisors if sentences // n * length <= tokens_per_gpu), sentences)
    return sentences // steps, steps


def split_sentences(update: int, length: int, workers: int, tokens_per_gpu: int) -> Flags:
    """--batch-size of a step and --update-freq.

    Raises:
        RecipeError: if the update cannot be divided by the workers.
    """
    if update % workers:
        raise RecipeError(
            f"--batch-size {update} cannot be split evenly over {workers} GPUs: give a multiple of {workers}"
        )
    sentences, steps = equal_steps(update // workers, length, tokens_per_gpu)
    return _flags("--batch-size", sentences, steps)


def split_tokens(update: int, expanded: int, longest: int, workers: int, tokens_per_gpu: int) -> Flags:
    """--max-tokens of a step and --update-freq.

    Args:
        update: tokens of an update, before expansion.
        expanded: tokens of a worker's share of it, after expansion.
        longest: tokens of the longest sentence, before expansion.

    Raises:
        RecipeError: if a step would be shorter than the longest sentence.
    """
    share = update // workers
    steps = max(1, -(-expanded // tokens_per_gpu))
    if share // steps < longest:
        raise RecipeError(
            f"an update of {update} tokens (--max-tokens) on {workers} GPUs in {steps} steps has "
            f"{share // steps} tokens a step, and a molecule may have {longest} (--tokens-per-sample): give "
            "fewer --gpus, or more --tokens-per-gpu"
        )
    return _flags("--max-tokens", share // steps, steps)


def divide(update: int, steps: str | None) -> Flags:
    """--batch-size of a step and --update-freq, for the steps that a user gives.

    Raises:
        RecipeError: if the update cannot be split over them.
    """
    steps = steps or "1"
    if not steps.isdigit() or int(steps) < 1 or update % int(steps):
        raise RecipeError(
            f"--update-freq {steps}: --batch-size {update} is that of an update, and cannot be split over so "
            "many steps"
        )
    return _flags("--batch-size", update // int(steps), int(steps))


def _flags(name: str, size: int, steps: int) -> Flags:
    return Flags({name: (str(size),), "--update-freq": (str(steps),)})
