"""Silences warnings that fairseq's own code sets off; nothing else depends on this module."""

import warnings


def silence_known_warnings() -> None:
    """Ignores what users can do nothing about; each entry says where it comes from."""
    for message, category, module in (
        # fairseq composes its configuration with the API of Hydra 1.0: a dozen lines at each start
        ("", UserWarning, r"hydra\."),
        (r"\s*'config' is validated against ConfigStore schema", UserWarning, ""),  # module: the caller's
        # torch 2.4 renamed them; in each training step, and with --amp
        (r"`torch\.cuda\.amp\.(autocast|GradScaler)", FutureWarning, r"fairseq\."),
        # fairseq always asks for pinned memory, on a CPU too
        ("'pin_memory' argument is set as true but no accelerator", UserWarning, r"torch\.utils\.data"),
    ):
        warnings.filterwarnings("ignore", message, category, module)


silence_known_warnings()
