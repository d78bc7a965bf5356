"""Prediction of molecular properties: MoleculeNet (section 5.1), or one's own data."""

import logging
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import numpy as np
from fairseq.data import (
    AppendTokenDataset,
    Dictionary,
    IdDataset,
    NestedDictionaryDataset,
    NumelDataset,
    NumSamplesDataset,
    PrependTokenDataset,
    RightPadDataset,
    SortDataset,
    StripTokenDataset,
    TruncateDataset,
    data_utils,
)
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from omegaconf import II, MISSING

from fs_plugins.data.datasets import RepeatInputDataset
from fs_plugins.data.vocabulary import Vocabulary
from fs_plugins.finetuning.moleculenet.data import LabelsDataset, labels_by_name, read_folder, read_labels
from fs_plugins.finetuning.moleculenet.metrics import metrics_of, summarise
from fs_plugins.finetuning.outputs import PropertyInfo
from fs_plugins.finetuning.scored import NamedSplit, ScoredTask

logger = logging.getLogger(__name__)


@dataclass
class MoleculePropertyConfig(FairseqDataclass):
    data: str = field(default=MISSING, metadata={"help": "folder made by scripts/prepare_moleculenet.py"})
    tokens_per_molecule: Optional[int] = field(  # noqa: UP045  (fairseq makes flags of this form only)
        default=None,
        metadata={
            "help": "with <s> and </s>; of longer molecules the start is read (default: --max-positions)"
        },
    )
    repeat_times: int = field(default=1, metadata={"help": "copies of each token, <s> too (k of the paper)"})
    classification_head_name: str = II("criterion.classification_head_name")
    seed: int = II("common.seed")


@register_task("molecule_property", dataclass=MoleculePropertyConfig)
class MoleculePropertyTask(ScoredTask):
    """Properties of molecules, several at once, classes or values, with missing labels.

    A batch has ``net_input.src_tokens`` [B, T] (``<s>``, the SMILES' tokens, ``</s>``, padding), ``target``
    [B, properties] float64 with NaN where there is no label, in the data's own units, ``id`` [B], the row in
    the split, and ``split``. The model's classification head reads ``<s>`` (of ExLM its first state).
    Validations log the means over properties of :mod:`fs_plugins.finetuning.moleculenet.metrics`, and
    ``scored_properties``, how many have labels of both classes. Of a Repeated MLM each token of the input
    stands ``--repeat-times`` times in a row, as in its pre-training (appendix B.2). Checkpoints hold, as
    ``task_state["molecule_property"]``, the PropertyInfo and the dictionary's symbols: all that prediction
    needs.
    """

    cfg: MoleculePropertyConfig
    criterion = "molecule_property"

    def __init__(self, cfg: MoleculePropertyConfig, dictionary: Dictionary, properties: PropertyInfo):
        super().__init__(cfg)
        self.dictionary, self.properties = dictionary, properties
        self.given = properties.names  # columns of the labels in the folder
        self.positions = cfg.tokens_per_molecule
        self.called_with = {"features_only": True, "classification_head_name": cfg.classification_head_name}
        self.metrics = metrics_of(self.properties.kind, len(self.properties.names))
        self.metric = self.metrics[0]
        self.labels: dict[str, np.ndarray] = {}  # split -> [rows, properties]
        state = {**self.properties.to_dict(), "symbols": list(dictionary.symbols)}
        self.state.merge_state_dict({"molecule_property": state})

    @classmethod
    def setup_task(cls, cfg: MoleculePropertyConfig, **kwargs):
        folder = read_folder(cfg.data)
        vocabulary = Vocabulary.read(Path(cfg.data))
        if vocabulary.identity != folder["dictionary"]:
            raise ValueError(
                f"{cfg.data}/dict.txt is not the dictionary that the molecules there were binarised with: "
                "prepare them again with the dict.txt of the pre-training"
            )
        return cls(cfg, vocabulary.dictionary(), PropertyInfo.from_dict(folder))

    def build_model(self, cfg, from_checkpoint=False):
        model = super().build_model(cfg, from_checkpoint)
        head, properties = self.cfg.classification_head_name, len(self.properties.names)
        model.register_classification_head(head, num_classes=properties)
        self._limit_positions(model)
        return model

    def prepare_for(self, checkpoint):
        """Takes the properties and their scale from the fine-tuning, as this folder may be of other
        molecules, whose columns may be in another order and need not have every property."""
        self._limit_positions(checkpoint.model)
        trained = checkpoint.properties
        for name in ("kind", "canonical", "allow_valence"):
            given, here = getattr(trained, name), getattr(self.properties, name)
            if given != here:
                raise ValueError(
                    f"{checkpoint.path} was fine-tuned on molecules with {name} {given!r}, {self.cfg.data} "
                    f"has {here!r}: prepare them as those"
                )
        if absent := [name for name in trained.names if name not in self.given]:
            logger.warning("%s has no labels of %s, not scored", self.cfg.data, ", ".join(absent))
        self.properties = trained

    def _limit_positions(self, model):
        most = model.max_positions() // self.cfg.repeat_times
        self.positions = min(most, self.cfg.tokens_per_molecule or most)

    def load_dataset(self, split, combine=False, **kwargs):
        tokens = self._tokens(split)
        rows = len(tokens)
        path = Path(self.cfg.data) / f"{split}.labels.npy"
        labels = labels_by_name(read_labels(path, rows, len(self.given)), self.given, self.properties.names)
        self.labels[split] = labels
        dataset = NestedDictionaryDataset(
            {
                "id": IdDataset(),
                "net_input": {
                    "src_tokens": RightPadDataset(tokens, pad_idx=self.dictionary.pad()),
                    "src_lengths": NumelDataset(tokens),
                },
                "target": LabelsDataset(labels),
                "nsentences": NumSamplesDataset(),
                "ntokens": NumelDataset(tokens, reduce=True),
            },
            sizes=[tokens.sizes],
        )
        with data_utils.numpy_seed(self.cfg.seed):
            order = [np.random.permutation(rows)]
        if split != "train":  # of which nothing is learned: little padding
            order.append(np.asarray(tokens.sizes))
        dataset = RepeatInputDataset(SortDataset(dataset, sort_order=order), self.cfg.repeat_times)
        self.datasets[split] = NamedSplit(dataset, split)
        logger.info("%s: molecules: %d, labels: %d", split, rows, np.count_nonzero(~np.isnan(labels)))
        return self.datasets[split]

    def _tokens(self, split: str):
        """Returns ``<s>``, tokens, ``</s>`` of each molecule, within the model's positions."""
        path = str(Path(self.cfg.data) / split)
        tokens = data_utils.load_indexed_dataset(path, self.dictionary)
        if tokens is None:
            raise FileNotFoundError(f"{self.cfg.data} has no split {split!r}: give another, as --split test")
        lengths = np.asarray(tokens.sizes) + 1  # counts </s>, and now <s>
        limit = self.positions
        long = np.flatnonzero(lengths > limit) if limit is not None else []
        if len(long):
            what = f"of more than {limit} tokens with <s> and </s>, of which the start is read"
            logger.warning("%s: molecules %s: %d of %d", split, what, len(long), len(lengths))
            eos = self.dictionary.eos()
            tokens = TruncateDataset(StripTokenDataset(tokens, eos), limit - 2)
            tokens = AppendTokenDataset(tokens, eos)
        return PrependTokenDataset(tokens, self.dictionary.bos())

    def rows(self, sample, outputs):
        """Returns [B, outputs] float64: values of a regression, in the labels' units; else logits."""
        outputs = outputs.double()
        return self.properties.predictions(outputs) if self.properties.regression else outputs

    def score(self, split, ids, rows):
        info = self.properties
        return summarise(rows, self.labels[split][ids], info.kind, info.std)

    def logged(self, scores):
        names = (*self.metrics, "scored_properties")
        # significant digits: an error in the units of small values is no 0
        return {name: float(f"{scores.get(name, math.nan):.6g}") for name in names}

    def max_positions(self):
        """Returns the most tokens of a molecule, without copies; ``load_dataset`` has cut longer ones."""
        return self.positions
