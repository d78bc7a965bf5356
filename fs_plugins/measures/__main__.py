"""Measures of models as JSON: python -m fs_plugins.measures MEASURE MODEL..."""

import argparse
import contextlib
import json
import logging
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from fs_plugins.data.vocabulary import Vocabulary
from fs_plugins.files import atomic, check_absent
from fs_plugins.inference import Model, load
from fs_plugins.measures.entropy import corpus_entropy
from fs_plugins.measures.masked_measures import joint_likelihood, probe
from fs_plugins.measures.masked_samples import SEED, load_samples

# name -> its function, and the number of samples by default
MEASURES = {
    "probe": (probe, 1000),
    "joint": (joint_likelihood, 1000),
    "entropy": (corpus_entropy, None),
}
BREAK_MODES = ("none", "complete", "complete_doc", "eos")


def count_of(text: str) -> int:
    if (value := int(text)) < 1:
        raise ValueError
    return value


def proportion(text: str) -> float:
    if not 0 < (value := float(text)) <= 1:
        raise ValueError
    return value


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the command's arguments; the help of each measure is its function's docstring."""
    parser = argparse.ArgumentParser(prog="python -m fs_plugins.measures", description=__doc__)
    commands = parser.add_subparsers(dest="measure", metavar="MEASURE", required=True)
    for name, (function, count) in MEASURES.items():
        title, _, text = function.__doc__.partition("\n")
        about = {"help": title, "description": title, "formatter_class": argparse.RawDescriptionHelpFormatter}
        about["epilog"] = text.replace("\n    ", "\n").partition("\nArgs:")[0]
        add = commands.add_parser(name, **about).add_argument
        add("model", type=Path, nargs="+", help="a checkpoint, or a folder for transformers")
        add("--data", type=Path, metavar="DIR", help="folder of dict.txt and the split (default: as trained)")
        add("--split", default="valid", help="(default: %(default)s)")
        number = f"the split's first samples, of entropy a random choice (default: {count or 'all'})"
        add("--max-sentences", type=count_of, default=count, metavar="N", help=number)
        add("--seed", type=int, default=SEED, help="of all that is drawn (default: %(default)s)")
        add("--output", type=Path, metavar="FILE", help="JSON file to write (default: standard output)")
        add("--overwrite", action="store_true", help="replace an existing FILE")
        add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")
        several = {"nargs": "+", "action": "extend", "default": [], "metavar": "P"}
        add("--mask-prob", type=proportion, **several, help="masking probabilities (default: as trained)")
        if name != "entropy":
            longest = "leave out longer samples (default: than those of the training)"
            add("--max-tokens", type=count_of, metavar="N", help=longest)
            add("--sample-break-mode", choices=BREAK_MODES, help="what a sample is (default: as trained)")
    args = parser.parse_args(argv)
    if args.measure == "entropy" and 1 in args.mask_prob:
        parser.error("--mask-prob 1: of entropy it must be less, as fairseq masks less than all")
    return args


def measure_model(model: Model, args: argparse.Namespace) -> dict:
    """Returns a row of the JSON: a model's description, and a measure's results at each p."""
    checkpoint = model.checkpoint
    return {
        "checkpoint": str(checkpoint.path),
        "arch": checkpoint.arch,
        "criterion": checkpoint.criterion,
        "k": checkpoint.k or checkpoint.copies,
        "updates": checkpoint.updates,
        "split": args.split,
        "seed": args.seed,
        "results": [*results_of(model, args)],
    }


def results_of(model: Model, args: argparse.Namespace) -> Iterator[dict]:
    """Yields a measure's results for a model at each p. Raises ValueError for a model without data."""
    function, _ = MEASURES[args.measure]
    checkpoint, options = model.checkpoint, {"seed": args.seed}
    if checkpoint.data is None:
        raise ValueError(f"{checkpoint.path} names no folder of data to measure on: give --data")
    trained = getattr(checkpoint.cfg.task, "mask_prob", None)
    probabilities = [trained if p is None else p for p in args.mask_prob or [None]]
    if None in probabilities:
        raise ValueError(f"{checkpoint.path} does not say how many tokens were masked: give --mask-prob")
    if args.measure == "entropy":
        options |= {"split": args.split, "max_sentences": args.max_sentences}
        yield from (function(checkpoint, p, **options) for p in probabilities)
        return
    limits = {"break_mode": args.sample_break_mode, "max_tokens": args.max_tokens}
    samples = load_samples(checkpoint, split=args.split, count=args.max_sentences, **limits)
    yield from (function(model.predictor, samples, p, **options) for p in probabilities)


def checked_vocabularies(models: Iterable[Model]) -> Iterator[Model]:
    """Yields models one by one. Raises ValueError for one of another vocabulary than the first's."""
    first = None
    for model in models:
        vocabulary = Vocabulary.of(model.checkpoint.dictionary.symbols, model.checkpoint.path)
        first = first or vocabulary
        first.check(vocabulary, "measure models of different vocabularies apart")
        yield model


def main(argv: Sequence[str] | None = None) -> None:
    """Parses, measures and writes; errors end the command with one line."""
    args = parse_arguments(argv)
    logging.basicConfig(level=logging.WARNING, force=True)  # fairseq says much when it loads
    try:
        if args.output:
            check_absent(args.output, args.overwrite)
            args.output.parent.mkdir(parents=True, exist_ok=True)
        # Fails before any work if it cannot be written.
        with atomic(args.output) if args.output else contextlib.nullcontext(sys.stdout) as file:
            models = (load(path, data=args.data, device=args.device) for path in args.model)
            rows = [measure_model(model, args) for model in checked_vocabularies(models)]
            rows.sort(key=lambda row: row["updates"] or 0)
            # Writes null for what is not finite, such as the error of a mean over a single sentence.
            plain = json.loads(json.dumps({"rows": rows}, default=asdict), parse_constant=lambda _: None)
            json.dump(plain, file, indent=1)
            file.write("\n")
    except (ValueError, OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
