"""What the quickstart shows: a live line while fairseq-train runs, and at the end a table and a picture.

    fairseq-train --log-format json ... 2>&1 | python scripts/quickstart_report.py progress ...
    python scripts/quickstart_report.py table runs/quickstart

"Bits per target" is ExLM's loss as its criterion logs it: the mean over sentences of -log2 P(targets), each
divided by its number of targets.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

CORPORA = {"text": "CPython's documentation", "smiles": "the molecules that RDKit ships"}
ENDS = (0, 2)  # <s> and </s> in every dictionary of fairseq's

_RECORD = re.compile(r"\| (train_inner|valid) \| (\{.*\})\s*$")


@dataclass
class Curve:
    """The figures of a log by update. Where a resumed run repeats updates, the later figures stand."""

    train: dict[int, float] = field(default_factory=dict)  # bits per target, mean since the point before
    valid: dict[int, float] = field(default_factory=dict)
    speed: dict[int, float] = field(default_factory=dict)  # targets per second
    nonfinite: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0  # of training and validation, over all runs up to the last point
    wall: float = 0.0  # of these, the last run's

    def add(self, kind: str, record: dict) -> None:
        if kind == "valid":
            self.valid[int(record["valid_num_updates"])] = float(record["valid_loss"])
            return
        update = int(record["num_updates"])
        self.train[update] = float(record["loss"])
        self.nonfinite[update] = float(record.get("nonfinite", 0))
        wall = float(record["wall"])
        self.seconds += wall if wall < self.wall else wall - self.wall  # a resumed run counts from 0 again
        self.wall = wall
        # Sentences and targets per sentence are means per update; ups is updates per second.
        speed = float(record["ups"]) * float(record["bsz"]) * float(record.get("targets", 0))
        if math.isfinite(speed):
            self.speed[update] = speed


def parse_record(line: str) -> tuple[str, dict] | None:
    """("train_inner" or "valid", figures) of a line of fairseq's JSON log, None for any other line."""
    found = _RECORD.search(line)
    return (found[1], json.loads(found[2])) if found else None


def read_curve(lines: Iterable[str]) -> Curve:
    curve = Curve()
    for line in lines:
        if record := parse_record(line):
            curve.add(*record)
    return curve


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02d}"


def live_line(curve: Curve, updates: int, updates_per_second: float, width: int) -> str:
    """The state of the training in at most `width` characters; the bar takes what the figures leave."""
    update = max(curve.train)
    text = f"{update:,}/{updates:,} updates  {curve.train[update]:.2f} bits per target"
    if curve.valid:
        text += f" (valid {curve.valid[max(curve.valid)]:.2f})"
    text += f"  {curve.speed.get(update, 0):,.0f} targets/s"
    if updates_per_second > 0:
        text += f"  {clock((updates - update) / updates_per_second)} left"
    room = min(width - len(text) - 5, 30)
    if room < 5:
        return text[:width]
    full = round(room * min(update / updates, 1))
    return f"  [{'#' * full}{'.' * (room - full)}] {text}"


def show_progress(source: TextIO, screen: TextIO, log: TextIO, updates: int) -> None:
    """Copies fairseq's output to the log; rewrites one line on a terminal, else adds one a validation."""
    curve, updates_per_second = Curve(), 0.0
    live = screen.isatty()
    for line in source:
        log.write(line)
        log.flush()
        record = parse_record(line)
        if record is None:
            continue
        curve.add(*record)
        kind, figures = record
        if kind == "train_inner":
            updates_per_second = float(figures["ups"])
        if curve.train and (live or kind == "valid"):
            width = shutil.get_terminal_size().columns - 1
            text = live_line(curve, updates, updates_per_second, width)
            screen.write(f"\r{text}\033[K" if live else f"{text}\n")
            screen.flush()
    if live and curve.train:
        screen.write("\n")


def graph_targets(source: list[int], target: list[int], bos: int, eos: int, pad: int) -> list[int]:
    """What ExLM predicts in a sentence: masked tokens, `<s>` and every `</s>`, one always at the end."""
    original = [token if label == pad else label for token, label in zip(source, target, strict=True)]
    chosen = [
        token for token, label in zip(original, target, strict=True) if label != pad or token in (bos, eos)
    ]
    return chosen if original[-1] == eos else [*chosen, eos]


def unigram_entropy(targets: Iterable[int]) -> float:
    """Bits per target of the best prediction that ignores the context: the targets' own frequencies."""
    counts = Counter(targets)
    total = sum(counts.values())
    return sum(count / total * math.log2(total / count) for count in counts.values())


def words_only_entropy(targets: Iterable[int], ends: Collection[int]) -> float:
    """The same for a prediction that is told where `<s>` and `</s>` stand, which position alone tells: the
    masked words' own entropy, spread over all targets."""
    targets = list(targets)
    words = [target for target in targets if target not in ends]
    return unigram_entropy(words) * len(words) / len(targets)


def validation_targets(data: str, settings: dict) -> Iterator[int]:
    """All targets of the validation set, masked exactly as fairseq-train masks it."""
    from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

    import fs_plugins  # noqa: F401  (what fairseq needs on current Python and NumPy)

    task = MaskedLMTask.setup_task(
        MaskedLMConfig(
            data=data,
            sample_break_mode=settings["sample_break_mode"],
            tokens_per_sample=int(settings["tokens_per_sample"]),
            mask_prob=float(settings["mask_prob"]),
            seed=int(settings["seed"]),
        )
    )
    task.load_dataset("valid")
    dataset, symbols = task.dataset("valid"), task.source_dictionary
    for index in range(len(dataset)):
        item = dataset[index]
        source, target = item["net_input.src_tokens"].tolist(), item["target"].tolist()
        yield from graph_targets(source, target, symbols.bos(), symbols.eos(), symbols.pad())


def read_settings(path: Path) -> dict[str, str]:
    """The file of NAME=VALUE lines in which the quickstart keeps what the run was made with."""
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if line)


def summary_rows(curve: Curve, before: float, entropy: float, words_only: float) -> list[tuple[str, str]]:
    last = max(curve.valid)
    after = curve.valid[last]
    speeds = sorted(curve.speed.values()) or [0.0]
    rows = [
        ("updates", f"{last:,}"),
        ("validation bits per target, before", f"{before:.2f}"),
        ("validation bits per target, after", f"{after:.2f}   ({after - before:+.2f})"),
        ("unigram entropy of the same targets", f"{entropy:.2f}   ({after - entropy:+.2f} beside it)"),
        ("  with <s> and </s> for free", f"{words_only:.2f}   ({after - words_only:+.2f} beside it)"),
        ("targets per second (median)", f"{speeds[len(speeds) // 2]:,.0f}"),
        ("minutes of training", f"{curve.seconds / 60:.1f}"),
    ]
    if any(curve.nonfinite.values()):
        rows.append(("NON-FINITE SENTENCES", "there were some; see the log"))
    return rows


def draw(curve: Curve, before: float, entropy: float, words_only: float, title: str, path: Path) -> None:
    """Bits per target over updates, training and validation, with the unigram entropies as marks to beat."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    valid = {0: before, **curve.valid}
    figure, axes = pyplot.subplots(figsize=(7, 4.2), constrained_layout=True)
    axes.plot(list(curve.train), list(curve.train.values()), color="#9bb8d3", linewidth=1, label="training")
    axes.plot(
        sorted(valid), [valid[u] for u in sorted(valid)], "o-", color="#1f4e79", ms=3.5, label="validation"
    )
    axes.axhline(
        entropy, color="#c0504d", linestyle="--", linewidth=1.2, label="unigram entropy (validation)"
    )
    axes.axhline(
        words_only, color="#c0504d", linestyle=":", linewidth=1.2, label="with <s> and </s> for free"
    )
    axes.set(xlabel="updates", ylabel="bits per target", title=title)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def table(output: Path) -> None:
    settings = read_settings(output / "settings")
    curve = read_curve((output / "train.log").read_text(errors="replace").splitlines())
    before = read_curve((output / "before.log").read_text(errors="replace").splitlines())
    if not before.valid or not curve.valid:
        empty = output / ("train.log" if before.valid else "before.log")
        raise SystemExit(f"error: {empty} holds no validation; remove {output} and run the quickstart again")
    before_bits = before.valid[max(before.valid)]
    targets = list(validation_targets(str(output / "data-bin"), settings))
    entropy, words_only = unigram_entropy(targets), words_only_entropy(targets, ENDS)
    title = f"{settings['arch']}, k = {settings['k']}, {float(settings['mask_prob']):.0%} masked"
    rows = summary_rows(curve, before_bits, entropy, words_only)
    width = max(len(name) for name, _ in rows)
    text = "\n".join(
        [f"ExLM on {CORPORA[settings['mode']]}: {title}", "", *(f"  {n:<{width}}  {v}" for n, v in rows)]
    )
    (output / "table.txt").write_text(text + "\n", encoding="utf-8")
    draw(curve, before_bits, entropy, words_only, title, output / "curve.png")
    print(text)
    if curve.valid[max(curve.valid)] < words_only:
        print("\nThe model reads the context: no prediction from frequency and position alone gets as low.")
    else:
        print("\nNot below what frequency and position alone give yet: train for more --updates.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    progress = commands.add_parser("progress", help="show fairseq-train's output as one live line")
    progress.add_argument(
        "--updates", type=int, required=True, help="the number of updates of the whole training"
    )
    progress.add_argument("--log", type=Path, required=True, help="the file to which the output is added")
    summary = commands.add_parser("table", help="print the table and draw the curve of a finished quickstart")
    summary.add_argument("output", type=Path, help="the quickstart's folder")
    args = parser.parse_args()
    if args.command == "progress":
        with args.log.open("a", encoding="utf-8") as log:
            # what fairseq still says on Ctrl-C belongs in the log
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            sys.stdin.reconfigure(errors="replace")
            show_progress(sys.stdin, sys.stdout, log, args.updates)
    else:
        table(args.output)


if __name__ == "__main__":
    main()
