"""Properties and embeddings of molecules given as SMILES, a stream of any length in bounded memory."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from torch import Tensor

from fs_plugins.checkpoint import Checkpoint
from fs_plugins.data.molecules import canonical_smiles, parse_molecule
from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.inference.stream import StreamModel


class MoleculeModel(StreamModel):
    """A checkpoint that reads SMILES.

    Args:
        checkpoint: fine-tuned with ``--task molecule_property``, or, for embeddings, any of SMILES.
        canonical, allow_valence: how SMILES are read; by default as they were for the fine-tuning, else in
            RDKit's canonical form and with its rules of valence.
        options: those of :class:`StreamModel`.

    Attributes:
        properties: what it predicts, a PropertyInfo; None for a model that was not fine-tuned.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        canonical: bool | None = None,
        allow_valence: bool | None = None,
        **options,
    ):
        super().__init__(checkpoint, self.tokens_of, **options)
        info = self.properties = checkpoint.properties
        self.canonical = canonical if canonical is not None else info is None or info.canonical
        allowed = info is not None and info.allow_valence
        self.allow_valence = allow_valence if allow_valence is not None else allowed
        asked = getattr(checkpoint.cfg.task, "tokens_per_molecule", None) if info else None
        self.limit = min(self.limit, asked or self.limit)  # what the fine-tuning read, where it was limited

    @property
    def head(self) -> str:
        """Name of the classification head.

        Raises:
            ValueError: if the checkpoint predicts no properties.
        """
        heads = list(self.checkpoint.model.classification_heads)
        if self.properties is None or len(heads) != 1:
            raise ValueError(
                f"{self.checkpoint.path} predicts no properties: give a checkpoint fine-tuned with "
                "--task molecule_property (scripts/finetune_moleculenet.sh)"
            )
        return heads[0]

    def tokens_of(self, text: str) -> Sequence[str]:
        molecule = parse_molecule(text, self.allow_valence)
        return tokenize(canonical_smiles(molecule, text) if self.canonical else text)

    def predict(self, smiles: Iterable[str]) -> Iterator[tuple[np.ndarray | None, str]]:
        """For each, in order, its [properties] float32 and a remark; None and the reason where it is bad.

        Probabilities of class 1, or values in the units of the training data.
        """
        self.head  # noqa: B018  (raises before any work)
        return self._stream(smiles, self.properties_of)

    def outputs(self, tokens: Tensor) -> Tensor:
        """The head's outputs [B, properties] for tokens [B, T]: logits, or standardised values."""
        model, head = self.checkpoint.model, self.head
        return model(tokens, features_only=True, classification_head_name=head)[0].float()

    def properties_of(self, tokens: Tensor) -> Tensor:
        """[B, properties] for tokens [B, T]: probabilities, or values in their units."""
        outputs, info = self.outputs(tokens), self.properties
        if not info.regression:
            return outputs.sigmoid()
        return outputs * outputs.new_tensor(info.std) + outputs.new_tensor(info.mean)
