"""What the commands ``python -m fs_plugins.analysis.NAME`` share: arguments, errors and JSON."""

import argparse
import json
import logging
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path

from fs_plugins.analysis.checkpoint import Checkpoint, load_checkpoint
from fs_plugins.analysis.masked_prediction import MaskedPredictor
from fs_plugins.analysis.masked_samples import SEED, load_samples

CAUGHT = (ValueError, OSError, RuntimeError, pickle.UnpicklingError)


def parser(
    doc: str, *, samples: str, count: int | None = 1000, checkpoints: bool = False
) -> argparse.ArgumentParser:
    """The arguments that all measures have.

    Args:
        doc: the module's docstring; its first line describes the command.
        samples: what --max-sentences counts.
        count: its default; None for all.
        checkpoints: whether any number of checkpoints is taken, not one.
    """
    result = argparse.ArgumentParser(
        description=doc.split("\n")[0], epilog=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = result.add_argument
    kinds = "of p_roberta*, mlm_*, p_roberta_ext_denselink* or exlm_*"
    add("checkpoint", type=Path, nargs="+" if checkpoints else None, help=kinds)
    add("--data", type=Path, metavar="DIR", help="folder of dict.txt and the split (default: the training's)")
    add("--split", default="valid", help="(default: %(default)s)")
    add(
        "--max-sentences", type=int, default=count, metavar="N", help=f"{samples} (default: {count or 'all'})"
    )
    add("--seed", type=int, default=SEED, help="of all that is drawn (default: %(default)s)")
    add("--output", type=Path, metavar="FILE", help="JSON file to write (default: standard output)")
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")
    return result


def add_mask_prob(result: argparse.ArgumentParser, default: float | None = None) -> None:
    """--mask-prob, --sample-break-mode and --max-tokens, for what is measured of masked words."""
    result.add_argument(
        "--mask-prob",
        type=_share,
        nargs="+",
        metavar="P",
        default=[] if default is None else [default],
        help=f"shares of the words to mask (default: {default or 'that of the training'})",
    )
    result.add_argument(
        "--sample-break-mode", metavar="MODE", help="what a sample is (default: as in the training)"
    )
    add_max_tokens(result)


def add_max_tokens(result: argparse.ArgumentParser) -> None:
    """--max-tokens."""
    result.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="leave out longer samples (default: than those of the training)",
    )


def _share(text: str) -> float:
    value = float(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text}: give a share between 0 and 1, such as 0.15")
    return value


def at_mask_probs(args: argparse.Namespace, measure: Callable[..., dict]) -> dict:
    """What is measured of masked words, at each share that was asked for or at that of the training.

    Args:
        args: of :func:`parser` with :func:`add_mask_prob`.
        measure: called with a MaskedPredictor, samples and a share, and ``seed`` and ``device``.
    """
    checkpoint = load_checkpoint(args.checkpoint, args.data, args.device)
    samples = load_samples(
        checkpoint,
        split=args.split,
        count=args.max_sentences,
        break_mode=args.sample_break_mode,
        max_tokens=args.max_tokens,
    )
    predictor = MaskedPredictor.of(checkpoint)
    trained = getattr(checkpoint.cfg.task, "mask_prob", None)
    if not args.mask_prob and trained is None:
        raise ValueError(f"{checkpoint.path} was trained by --task {checkpoint.task}: give --mask-prob")
    results = [
        measure(predictor, samples, share, seed=args.seed, device=checkpoint.device)
        for share in args.mask_prob or [trained]
    ]
    return {**about(checkpoint), "split": args.split, "seed": args.seed, "results": results}


def of_each_checkpoint(args: argparse.Namespace, measure: Callable[[argparse.Namespace], dict]) -> dict:
    """``{"rows": [...]}``: what is measured of each of ``args.checkpoint``, by updates."""
    rows = [measure(argparse.Namespace(**{**vars(args), "checkpoint": path})) for path in args.checkpoint]
    return {"rows": sorted(rows, key=lambda row: (row["updates"] is None, row["updates"]))}


def about(checkpoint: Checkpoint) -> dict:
    """What a report says of the model itself."""
    return {
        "checkpoint": str(checkpoint.path),
        "arch": checkpoint.arch,
        "criterion": checkpoint.criterion,
        "k": checkpoint.states or checkpoint.copies,
        "updates": checkpoint.updates,
    }


def write_json(value, path: Path | None) -> None:
    """Writes a JSON file atomically, or to standard output; dataclasses become dicts."""
    text = json.dumps(value, indent=1, default=_plain) + "\n"
    if path is None:
        sys.stdout.write(text)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _plain(value):
    if is_dataclass(value):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def check_output(path: Path | None) -> None:
    """Makes the folder, and fails before any work where the file cannot be written.

    Raises:
        OSError: the message says why.
    """
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder")
    except OSError as error:
        raise OSError(f"cannot write --output {path}: {error.strerror or error}") from error


def run(
    arguments: argparse.ArgumentParser,
    measure: Callable[[argparse.Namespace], dict],
    argv: Sequence[str] | None = None,
) -> None:
    """Parses, measures and writes; errors end the command with one line."""
    args = arguments.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, force=True)  # fairseq says much when it loads
    try:
        check_output(args.output)
        write_json(measure(args), args.output)
    except CAUGHT as error:
        raise SystemExit(f"error: {error}") from error
