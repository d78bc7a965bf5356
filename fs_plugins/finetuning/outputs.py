"""What the outputs of a fine-tuned head mean."""

from dataclasses import asdict, dataclass

from torch import Tensor

from fs_plugins.files import naming_errors

# values of ``problem_type`` in transformers' configurations
REGRESSION, CLASSES, LABELS = "regression", "single_label_classification", "multi_label_classification"
KINDS = {"classification": LABELS, "regression": REGRESSION}  # kinds of properties


@dataclass(frozen=True)
class Outputs:
    """The outputs of a head.

    Args:
        problem: "regression", "single_label_classification" (one of the classes is right) or
            "multi_label_classification" (each is right or not).
        names: one for each output.
        mean, std: of the training labels of a regression, whose outputs are (value - mean) / std; without
            them the outputs are the values.
    """

    problem: str
    names: tuple[str, ...]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @property
    def regression(self) -> bool:
        return self.problem == REGRESSION

    def predictions(self, outputs: Tensor) -> Tensor:
        """Returns, for outputs [B, outputs], probabilities or values in their units, float64 on the CPU."""
        outputs = outputs.double().cpu()  # values may be large, and differ little
        if self.problem == CLASSES:
            return outputs.softmax(-1)
        if self.problem == LABELS:
            return outputs.sigmoid()
        if not self.mean:
            return outputs
        return outputs * outputs.new_tensor(self.std) + outputs.new_tensor(self.mean)


@dataclass(frozen=True)
class PropertyInfo:
    """The properties of molecules that a model predicts. Raises ValueError if these do not fit each other."""

    kind: str  # "classification" (each property is 0 or 1) or "regression"
    names: tuple[str, ...]  # one for each column of labels
    # mean, std: of the training labels, one for each property; the outputs of a regression are (value - mean)
    # / std. 0 and 1 for classification.
    mean: tuple[float, ...]
    std: tuple[float, ...]
    canonical: bool = True  # whether SMILES are brought into RDKit's canonical form before they are tokenised
    allow_valence: bool = False  # whether atoms may have more bonds than RDKit permits

    def __post_init__(self):
        fits = len(self.names) == len(self.mean) == len(self.std) > 0 and all(std > 0 for std in self.std)
        if not fits or self.kind not in KINDS:
            raise ValueError(f"the properties do not fit each other: {self!r:.500}")

    @property
    def regression(self) -> bool:
        return self.kind == "regression"

    @property
    def outputs(self) -> Outputs:
        scale = (self.mean, self.std) if self.regression else ()
        return Outputs(KINDS[self.kind], self.names, *scale)

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
