"""What the terminal shows of a training, whose whole output is in train.log."""

import re
import time
from collections import deque
from datetime import timedelta

from lib.command_line import Flags
from lib.files import digits
from lib.run.logs import record_of

PAUSE = 10  # seconds between two lines of training; each validation has a line
_HEAD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| ([A-Z]+) \|")


class Progress:
    """Called with chunks of fairseq-train's output, returns what to show: a line for each validation, as in
    "epoch 3 of 40, valid rmse 0.71 (best 0.69), 0:00:40 left", and all that is not INFO. ``flags`` are those
    of fairseq-train."""

    def __init__(self, flags: Flags):
        self.metric, self.epochs = (
            flags.value("--best-checkpoint-metric") or "loss",
            flags.value("--max-epoch"),
        )
        self.updates = int(float(flags.value("--total-num-update") or flags.value("--max-update") or 0))
        self.rest, self.shows, self.said, self.began = b"", True, 0.0, None
        self.hidden: deque[str] = deque(maxlen=15)  # the last lines, if they were not shown

    def __call__(self, chunk: bytes) -> bytes:
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        return b"".join(self._shown(line.decode(errors="replace")).encode() for line in lines)

    def end(self, status: int) -> str:
        """Returns what remains to be shown of a command that ended with this exit status."""
        rest = self._shown(self.rest.decode(errors="replace")) if self.rest else ""
        return rest + "".join(f"{line[:300]}\n" for line in self.hidden if status)

    def _shown(self, line: str) -> str:
        if record := record_of(line):
            return self._progress(record, time.monotonic())
        if head := _HEAD.match(line):
            self.shows = head[1] != "INFO"
        elif line.startswith("Traceback"):  # else it belongs to the line before, as those of a model do
            self.shows = True
        if self.shows:
            self.hidden.clear()
            return f"{line}\n"
        self.hidden.append(line)
        return ""

    def _progress(self, record: dict, now: float) -> str:
        kind, done, name = record["kind"], record["update"], self.metric
        since, first = self.began = self.began or (now, done)  # a resumed training begins where it was
        if kind != "valid" and (kind != "train" or now < self.said + PAUSE):
            return ""
        self.said = now
        text = f"update {done:,}" + (f" of {self.updates:,}" if self.updates else "")
        if self.epochs and record.get("epoch"):
            text = f"epoch {record['epoch']} of {self.epochs}"
        value = digits(record.get(name if kind == "valid" else "loss"))
        text += f", valid {name} {value}" if kind == "valid" else f", loss {value}"
        if f"best_{name}" in record:
            text += f" (best {digits(record[f'best_{name}'])})"
        if self.updates and done > first:
            left = (self.updates - done) * (now - since) / (done - first)
            text += f", {timedelta(seconds=round(left))} left"
        return f"{text}\n"
