"""ExLM as a fairseq plugin: ``fairseq-train --user-dir fs_plugins``.

Without fairseq, such as on a Python that it does not support, ``custom_ops`` and the model for transformers
can be imported.
"""

import logging
from importlib.util import find_spec

if find_spec("fairseq") is not None:
    # Importing fairseq sets up a root logger without handlers, at level DEBUG for all packages.
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    from fs_plugins import criterions, fairseq_patches, finetuning, models, tasks
    from fs_plugins.speed import fused_adamw

    logging.getLogger().removeHandler(handler)
