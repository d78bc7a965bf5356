"""The meaning of a fine-tuned head's outputs."""

from dataclasses import asdict, dataclass

from torch import Tensor

from fs_plugins.files import naming_errors

KINDS = ("classification", "regression")  # of properties
# kind of outputs -> ``problem_type`` in transformers' configurations
PROBLEMS = {
    "classes": "single_label_classification",  # one of the classes is right
    "classification": "multi_label_classification",  # each is right or not
    "regression": "regression",
}


@dataclass(frozen=True)
class Outputs:
    """The outputs of a head."""

    kind: str  # one of PROBLEMS
    names: tuple[str, ...]  # one for each output
    # mean, std: of the training labels of a regression, whose outputs are (value - mean) / std; without them
    # the outputs are the values.
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @property
    def regression(self) -> bool:
        return self.kind == "regression"

    def predictions(self, outputs: Tensor) -> Tensor:
        """Returns, for outputs [B, outputs], probabilities or values in their units, float64 on the CPU."""
        outputs = outputs.double().cpu()  # values may be large, and differ little
        if not self.regression:
            return outputs.softmax(-1) if self.kind == "classes" else outputs.sigmoid()
        return (
            outputs * outputs.new_tensor(self.std) + outputs.new_tensor(self.mean) if self.mean else outputs
        )


@dataclass(frozen=True)
class PropertyInfo(Outputs):
    """The properties of molecules that a model predicts, one for each column of labels. Of a classification,
    each is 0 or 1, ``mean`` 0 and ``std`` 1. Raises ValueError if the values do not fit each other."""

    canonical: bool = True  # whether SMILES are brought into RDKit's canonical form before they are tokenised
    allow_valence: bool = False  # whether atoms may have more bonds than RDKit permits

    def __post_init__(self):
        fits = len(self.names) == len(self.mean) == len(self.std) > 0 and all(std > 0 for std in self.std)
        if not fits or self.kind not in KINDS:
            raise ValueError(f"the properties do not fit each other: {self!r:.500}")

    def to_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, state: dict) -> "PropertyInfo":
        """Returns the inverse of ``to_dict``; other keys are left aside. Raises ValueError for a missing
        value or one of another type, and as the class does."""
        with naming_errors("the properties' description"):
            names = tuple(map(str, state["names"]))
            mean, std = (tuple(map(float, state[name])) for name in ("mean", "std"))
            how = (bool(state[name]) for name in ("canonical", "allow_valence"))
            return cls(state["kind"], names, mean, std, *how)
