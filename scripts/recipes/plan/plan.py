"""A plan: what a page of scripts/ hands to fairseq-train, and what the run's folder is made of."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from recipes.flags import Flags

# What a run may change when it is resumed: how long, on what, how often to look and to save.
# fmt: off
FREE = {
    "--max-update", "--total-num-update", "--warmup-updates", "--update-freq", "--batch-size",
    "--max-tokens", "--stop-time-hours", "--cpu", "--fp16", "--fp16-scale-tolerance", "--fp16-scale-window",
    "--fp16-init-scale", "--bf16", "--memory-efficient-fp16", "--amp", "--num-workers",
    "--data-buffer-size", "--checkpoint-activations", "--offload-activations", "--empty-cache-freq",
    "--ddp-backend", "--device-id", "--find-unused-parameters", "--distributed-world-size",
    "--distributed-rank", "--distributed-init-method", "--distributed-no-spawn", "--distributed-backend",
    "--distributed-port", "--nprocs-per-node", "--log-interval", "--log-format", "--log-file",
    "--tensorboard-logdir", "--wandb-project", "--no-progress-bar", "--validate-interval-updates",
    "--validate-interval", "--max-valid-steps", "--disable-validation", "--save-interval-updates",
    "--save-interval", "--keep-interval-updates", "--no-save", "--restore-file", "--reset-optimizer",
    "--reset-dataloader", "--reset-meters", "--reset-lr-scheduler",
}
# fmt: on


@dataclass
class Plan:
    """One training.

    Attributes:
        save: the folder of the run.
        data: what fairseq-train reads, as it is given to it.
        groups: name -> flags, each an array of the page: model, recipe, batch, device, user.
        asked: what was asked for besides the flags, and belongs to what the folder is made of.
        inputs: name -> SHA-256 of what is read.
        values: name -> value or words; further variables of the page.
        finished: why there is nothing to train, if there is nothing.
        show: whether the command is to be shown instead of run.
        notes: what to tell the user before: warnings; of a plan that is shown, what the run will cost.
    """

    save: Path
    data: str
    groups: dict[str, Flags]
    asked: dict = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    values: dict[str, str | list[str]] = field(default_factory=dict)
    finished: str = ""
    show: bool = False
    notes: list[str] = field(default_factory=list)

    def settings(self) -> dict:
        """What may not differ when the run is resumed."""
        flags = Flags()
        for group in self.groups.values():
            flags |= group
        kept = {name: " ".join(values) for name, values in sorted(flags.items()) if name not in FREE}
        return self.asked | kept

    def shell(self, command: list[str]) -> str:
        """Assignments of the page's variables."""
        made_of = {"settings": self.settings(), "inputs": self.inputs, "command": command}
        values = {"save": str(self.save), "data": self.data, "made_of": json.dumps(made_of)}
        values["show"] = "yes" if self.show else ""
        groups = {name: flags.words() for name, flags in self.groups.items()}
        lines = []
        for name, value in {**values, **groups, **self.values}.items():
            words = shlex.quote(value) if isinstance(value, str) else f"({shlex.join(value)})"
            lines.append(f"{name}={words}")
        return "\n".join(lines) + "\n"


def override(groups: dict[str, Flags], user: Flags) -> dict[str, Flags]:
    """The groups with a user's flags in the places of theirs, and the others in a group of their own."""
    groups = {name: Flags(flags) for name, flags in groups.items()}
    rest = Flags()
    for name, values in user.items():
        group = next((flags for flags in groups.values() if name in flags), rest)
        group[name] = values
    return {**groups, "user": rest}
