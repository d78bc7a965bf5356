"""ExLM as a fairseq plugin: ``fairseq-train --user-dir fs_plugins``.

Within fairseq, importing this registers all that belongs to the plugin. In a program that has not imported
fairseq it imports nothing, so that tokens, the compiled operator and the model itself need no fairseq; what
does need it calls :func:`register`.
"""

import logging
import sys


def register() -> None:
    """Registers models, tasks, criteria and the optimizer with fairseq, and mends what of fairseq's needs it;
    once, however often it is called."""
    # Importing fairseq sets up a root logger without handlers, at level DEBUG for all packages.
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    from fs_plugins import criterions, fairseq_patches, finetuning, models, tasks
    from fs_plugins.speed import fused_adamw

    logging.getLogger().removeHandler(handler)


if "fairseq" in sys.modules:
    register()
