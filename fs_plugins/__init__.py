"""ExLM as a fairseq plugin: ``fairseq-train --user-dir fs_plugins``."""

from fs_plugins import compat

compat.apply()

from fs_plugins import criterions, models, optim, tasks  # noqa: E402

__all__ = ["compat", "criterions", "models", "optim", "tasks"]
