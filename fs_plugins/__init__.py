"""ExLM as a fairseq plugin: ``fairseq-train --user-dir fs_plugins``.

Without fairseq, such as on a Python that it does not support, ``custom_ops`` and the model for transformers
can be imported.
"""

from importlib.util import find_spec

if find_spec("fairseq") is not None:
    from fs_plugins import checkpoint_files, compat, criterions, models, optim, tasks
