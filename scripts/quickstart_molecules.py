"""The quickstart's molecules: those that RDKit itself ships, and what a fine-tuned model learned of them.

RDKit brings some 15,000 molecules with it: the first 5,000 of the NCI's open database and 10,000 of WEHI's
screening library. Some of the NCI's are kept apart for fine-tuning on a property that RDKit computes,
Crippen's logP; all others are for pre-training.

    python scripts/quickstart_molecules.py corpus runs/quickstart-smiles    # before training
    python scripts/quickstart_molecules.py table runs/quickstart-smiles     # after fine-tuning

The first writes there corpus/{train,valid}.smi and property.csv (smiles, logP, split); the second reads
finetune/{pretrained,scratch}/seed-*, and writes property.txt and property.png.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NCI = ("NCI", "first_5K.smi")
WEHI = ("Pains", "test_data", "wehi_mols.csv")
MOST_HEAVY_ATOMS = 50

# Molecules of the NCI's by the hash of their canonical SMILES, in thousandths; the rest are for pre-training.
SHARES = {"train": 220, "valid": 80, "test": 180, "validation of the pre-training": 50}


def shipped_files() -> tuple[Path, Path]:
    """The two files of molecules of RDKit's.

    Raises:
        SystemExit: if this RDKit comes without them.
    """
    from rdkit import RDConfig

    paths = tuple(Path(RDConfig.RDDataDir).joinpath(*parts) for parts in (NCI, WEHI))
    for path in paths:
        if not path.is_file():
            raise SystemExit(
                f"error: this RDKit comes without {path}; the one that pip installs has it. Other molecules "
                "go through scripts/prepare_smiles.py and scripts/pretrain_smiles.sh"
            )
    return paths


def canonical_molecules(strings: Iterable[str]) -> dict:
    """{canonical SMILES: molecule} of those that RDKit reads and that are not large, without repetitions."""
    from rdkit import Chem, rdBase

    found = {}
    with rdBase.BlockLogs():
        for string in strings:
            molecule = Chem.MolFromSmiles(string)
            if molecule is not None and 0 < molecule.GetNumHeavyAtoms() <= MOST_HEAVY_ATOMS:
                found.setdefault(Chem.MolToSmiles(molecule), molecule)
    return found


def share_of(smiles: str) -> str:
    """The name of the share that a molecule falls into, "" for pre-training; decided by its string alone."""
    place = int.from_bytes(hashlib.sha256(smiles.encode()).digest()[:4], "big") * 1000 // 2**32
    for name, thousandths in SHARES.items():
        if place < thousandths:
            return name
        place -= thousandths
    return ""


def write_corpus(output: Path) -> None:
    from rdkit.Chem import Crippen

    nci_path, wehi_path = shipped_files()
    nci = canonical_molecules(line.split()[0] for line in nci_path.read_text().splitlines() if line.strip())
    with wehi_path.open(newline="") as file:
        wehi = canonical_molecules(row[0] for row in csv.reader(file) if row)
    splits: dict[str, list[str]] = {"train": [], "valid": []}
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(["smiles", "logP", "split"])
    for smiles, molecule in nci.items():
        share = share_of(smiles)
        if share in ("train", "valid", "test"):
            rows.writerow([smiles, f"{Crippen.MolLogP(molecule):.4f}", share])
        else:
            splits["valid" if share else "train"].append(smiles)
    splits["train"] += [smiles for smiles in wehi if smiles not in nci]
    (output / "corpus").mkdir(parents=True, exist_ok=True)
    for split, molecules in splits.items():
        (output / "corpus" / f"{split}.smi").write_text("".join(f"{smiles}\n" for smiles in molecules))
        print(f"  {split}: {len(molecules):,} molecules")
    (output / "property.csv").write_text(table.getvalue())
    print(f"  logP: {table.getvalue().count(chr(10)) - 1:,} other molecules")


@dataclass
class Finetuned:
    """A fine-tuned model on the test molecules: errors in logP, values [molecules] by RDKit and by it."""

    rmse: float
    mae: float
    wanted: list[float]
    predicted: list[float]

    @property
    def explained(self) -> float:
        """Share of the variance of the values that is explained (R squared)."""
        mean = sum(self.wanted) / len(self.wanted)
        spread = sum((value - mean) ** 2 for value in self.wanted)
        return 1 - self.rmse**2 * len(self.wanted) / spread


def read_finetuned(folder: Path, values: dict[str, float]) -> Finetuned:
    """From what scripts/finetune_moleculenet.sh leaves in SAVE/seed-N; values is {SMILES: logP}."""
    metrics = json.loads((folder / "metrics.json").read_text())["test"]
    with (folder / "test.predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    wanted = [values[row["smiles"]] for row in rows]
    return Finetuned(metrics["rmse"], metrics["mae"], wanted, [float(row["logP"]) for row in rows])


def read_values(path: Path) -> dict[str, dict[str, float]]:
    """{split: {SMILES: logP}}"""
    values: dict[str, dict[str, float]] = {"train": {}, "valid": {}, "test": {}}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            values[row["split"]][row["smiles"]] = float(row["logP"])
    return values


def constant_error(values: dict[str, dict[str, float]]) -> float:
    """RMSE in the test of the training molecules' mean, the best guess without a look at the molecule."""
    train, test = list(values["train"].values()), list(values["test"].values())
    mean = sum(train) / len(train)
    return math.sqrt(sum((value - mean) ** 2 for value in test) / len(test))


def draw(model: Finetuned, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 4.6), constrained_layout=True)
    axes.plot(model.wanted, model.predicted, "o", color="#1f4e79", ms=3, alpha=0.4, markeredgewidth=0)
    ends = [min(model.wanted), max(model.wanted)]
    axes.plot(ends, ends, color="#c0504d", linestyle="--", linewidth=1.2)
    axes.set(
        xlabel="Crippen's logP, computed by RDKit",
        ylabel="predicted from SMILES",
        title=f"{len(model.wanted)} test molecules: RMSE {model.rmse:.2f}, $R^2$ {model.explained:.2f}",
    )
    axes.grid(alpha=0.25)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def write_table(output: Path) -> None:
    values = read_values(output / "property.csv")
    models = {}
    for name, folder in {"pre-trained": "pretrained", "from scratch": "scratch"}.items():
        (seed,) = (output / "finetune" / folder).glob("seed-*")
        models[name] = read_finetuned(seed, values["test"])
    lines = [
        f"Crippen's logP of {len(values['test'])} test molecules, from {len(values['train'])} labelled ones",
        "",
    ]
    lines.append(f"  {'':<32} {'RMSE':>6} {'MAE':>6} {'R2':>6}")
    for name, model in models.items():
        lines.append(f"  {name:<32} {model.rmse:>6.3f} {model.mae:>6.3f} {model.explained:>6.3f}")
    lines.append(f"  {'the mean, whatever the molecule':<32} {constant_error(values):>6.3f}")
    text = "\n".join(lines)
    (output / "property.txt").write_text(text + "\n")
    draw(models["pre-trained"], output / "property.png")
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=("corpus", "table"))
    parser.add_argument("output", type=Path, help="the quickstart's folder")
    args = parser.parse_args()
    {"corpus": write_corpus, "table": write_table}[args.command](args.output)


if __name__ == "__main__":
    main()
