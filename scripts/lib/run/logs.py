"""What fairseq writes with --log-format json, as records."""

import json
import math
import re
from pathlib import Path

_RECORD = re.compile(r"\| (train_inner|train|valid\w*) \| (\{.*\})\s*$")


def read_log(path: Path) -> list[dict]:
    """Returns the figures of a log file, in order: {"kind", "update", "loss", "ppl", ...}, numbers as
    numbers; none where there is no file.

    ``kind`` is ``train`` (the mean since the record before), ``epoch`` (the mean over an epoch), or the name
    of a validation set. Where a resumed run repeats an update, the later record stands.
    """
    records: dict[tuple[str, int], dict] = {}
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for record in filter(None, map(record_of, text.split("\n"))):
        records[record["kind"], record["update"]] = record
    return list(records.values())


def record_of(line: str) -> dict | None:
    """Returns the figures of a line; None if it has none, or was cut short by a kill."""
    if not (match := _RECORD.search(line)):
        return None
    try:
        figures = json.loads(match[2])
    except json.JSONDecodeError:
        return None
    record = {"kind": {"train_inner": "train", "train": "epoch"}.get(match[1], match[1])}
    record |= {name.removeprefix(f"{match[1]}_"): _number(value) for name, value in figures.items()}
    return {**record, "update": record.pop("num_updates")}


def _number(value):
    """Returns a number of fairseq's, whose figures are strings; what JSON has no number for is null."""
    for number in (int, float) if isinstance(value, str) else ():
        try:
            return number(value) if math.isfinite(float(value)) else None
        except ValueError:
            continue
    return value


def training_seconds(records: list[dict]) -> float | None:
    """Returns the seconds in training steps, validation and saving aside: fairseq's ``train_wall`` over the
    epochs. That of an epoch that was resumed has the seconds before. None if the log lacks an epoch."""
    epochs = (record for record in records if record["kind"] == "epoch" and "train_wall" in record)
    seconds = {record.get("epoch"): record["train_wall"] for record in epochs}
    whole = seconds and sorted(seconds) == [*range(1, len(seconds) + 1)]
    return sum(seconds.values()) if whole else None


def corruption(records: list[dict], k: int) -> tuple[float, int] | None:
    """Returns (proportion of tokens whose k copies were all masked, number of tokens) over the records of
    kind ``train``. The mean of each counts as many tokens as its updates had (``wpb``, copies included)."""
    total, corrupted, before = 0.0, 0.0, 0
    for record in records:
        tokens = (record.get("wpb") or 0) * (record["update"] - before) / k
        before = record["update"]
        if record.get("corrupted") is not None:
            total += tokens
            corrupted += tokens * record["corrupted"]
    return (corrupted / total, round(total)) if total else None
