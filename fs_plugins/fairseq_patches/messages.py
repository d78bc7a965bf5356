"""Messages: warnings that fairseq's own code sets off are silenced; the log says how long a training takes.

Nothing but the log changes: this module may be deleted.
"""

import warnings

from fairseq.logging import metrics
from fairseq.trainer import Trainer

from fs_plugins.fairseq_patches.wrapping import wrap


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


@wrap(Trainer, "train_step")
def say_more(original, trainer, *args, **kwargs):
    """Logs ``hours_left``, to ``--max-update`` at the present speed; validations and saving come on top. Says
    what to do about gradients that are not finite, of which fairseq says that they are."""
    try:
        output, most = original(trainer, *args, **kwargs), trainer.cfg.optimization.max_update
    except FloatingPointError as error:
        way_out = "lower --lr or raise --warmup-updates, in another folder"
        raise FloatingPointError(f"{error}: {way_out}") from error
    if output is not None and most > 0:
        left = max(most - trainer.get_num_updates(), 0)
        metrics.log_derived("hours_left", lambda meters: round(left / 3600 / (meters["ups"].avg or 1), 2))
    return output
