"""What has to be known of a pre-training: its checkpoint's architecture and lengths, and its dictionary."""

from dataclasses import dataclass
from pathlib import Path

from lib.command_line import Flags, UserError
from omegaconf import DictConfig

from fs_plugins import checkpoint
from fs_plugins.data.vocabulary import DICT_FILE, Vocabulary
from fs_plugins.models.flags import option

EMBEDDINGS = tuple(f"{name}.sentence_encoder.embed_tokens.weight" for name in ("encoder", "decoder"))


@dataclass(frozen=True)
class Pretrained:
    """A model to start from."""

    path: Path  # a checkpoint, or a folder for transformers
    flags: Flags  # --arch and sizes, with which fairseq-train builds the checkpoint's model
    entries: int  # size of its dictionary
    # the dict.txt beside it, or that it names, or the folder itself; None if there is none of its size
    dictionary: Path | None
    task: DictConfig  # the settings of the task that it was trained with

    @property
    def repeat(self) -> int:
        """Returns the copies of each token (Repeated MLM), else 1."""
        return int(self.task.get("repeat_times") or 1)

    @property
    def expands(self) -> bool:
        """Returns whether it is an ExLM, which makes several states of a token."""
        return "--ext-state-num" in self.flags

    @property
    def max_positions(self) -> int:
        """Returns the most tokens of a sentence, after any expansion."""
        return self.flags.whole("--max-positions", 1)


def read_checkpoint(path: Path) -> Pretrained:
    """Returns what fine-tuning needs of a checkpoint or a folder for transformers; builds no model. Raises
    what ``read_state`` does."""
    state, cfg = checkpoint.read_state(path)
    entries = len(next(state["model"][name] for name in EMBEDDINGS if name in state["model"]))
    flags = Flags({"--arch": (cfg.model._name,)})
    for name, value in vars(cfg.model).items():
        if not name.endswith(("_name", "arch", "dropout")) and value is not False:
            flags[option(name)] = () if value is True else (str(value),)
    try:
        dictionary = path if path.is_dir() else path.parent / DICT_FILE
        if not dictionary.exists():
            dictionary = checkpoint.find_dictionary(path, cfg) / DICT_FILE
        dictionary = dictionary if len(Vocabulary.read(dictionary).symbols) == entries else None
    except (FileNotFoundError, ValueError):
        dictionary = None
    return Pretrained(path, flags, entries, dictionary, cfg.task)


def check_dictionary(pretrained: Pretrained, dictionary: Path, hint: str) -> None:
    """Raises ValueError if the dict.txt of data is not the checkpoint's, or of another size if that is gone;
    ``hint`` is what to do then."""
    vocabulary = Vocabulary.read(dictionary)
    if pretrained.dictionary:
        vocabulary.check(Vocabulary.read(pretrained.dictionary), hint)
    elif len(vocabulary.symbols) != pretrained.entries:
        raise UserError(
            f"{dictionary} has {len(vocabulary.symbols):,} entries (with <mask>), the checkpoint "
            f"{pretrained.path} {pretrained.entries:,}: {hint}"
        )
