"""Atom probe: what a linear model reads of an atom from a model's vectors of a molecule without masks."""

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from fairseq.data import Dictionary
from rdkit.Chem import rdPartialCharges
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from fs_plugins.checkpoint import Checkpoint, untrained_model
from fs_plugins.data.molecules import parse_molecule
from fs_plugins.data.smiles_tokens import is_atom
from fs_plugins.measures.masked_samples import BATCH_TOKENS
from fs_plugins.measures.means import ClusteredMean, Mean

logger = logging.getLogger(__name__)

LABELS = ("hydrogens", "degree", "ring", "charge")


def read_atoms(samples: Sequence[Tensor], dictionary: Dictionary) -> pd.DataFrame:
    """The atoms of molecules [T] each, as ids of SMILES tokens between ``<s>`` and ``</s>``, in order.

    Molecules that RDKit cannot read, or of which it keeps another number of atoms than are written (it takes
    ``[H]`` away), are left out, with a warning of how many.

    Returns:
        Of each atom ``molecule``, the sample's number; ``place``, its token's index in the sample, from 0
        for ``<s>``; ``token``, its id; and its labels. Charge is NaN where Gasteiger's method has none.

    Raises:
        ValueError: if there is none.
    """
    rows, left_out = [], 0
    for number, sample in enumerate(samples):
        symbols = [dictionary[i] if i >= dictionary.nspecial else "" for i in sample.tolist()]
        places = [i for i, s in enumerate(symbols) if s and is_atom(s)]
        try:
            molecule = parse_molecule("".join(symbols))
        except ValueError:
            molecule = None
        if molecule is None or molecule.GetNumAtoms() != len(places):
            left_out += 1
            continue
        rdPartialCharges.ComputeGasteigerCharges(molecule)
        for place, atom in zip(places, molecule.GetAtoms(), strict=True):
            labels = (atom.GetTotalNumHs(), atom.GetDegree(), int(atom.IsInRing()))
            charge = atom.GetDoubleProp("_GasteigerCharge")
            rows.append((number, place, int(sample[place]), *labels, charge))
    if left_out:
        logger.warning("%d of %d samples are left out: no molecule, or with [H]", left_out, len(samples))
    if not rows:
        raise ValueError("there is no molecule among the samples: the atom probe is for models of SMILES")
    atoms = pd.DataFrame(rows, columns=["molecule", "place", "token", *LABELS])
    return atoms.replace({"charge": [np.inf, -np.inf]}, np.nan)


@torch.no_grad()
def atom_vectors(model, samples: Sequence[Tensor], atoms: pd.DataFrame, *, copies: int = 1) -> np.ndarray:
    """[A, d] float32, the last layer's vector at each atom's token.

    Args:
        model: in evaluation mode.
        samples: as of :func:`read_atoms`.
        atoms: those of the samples.
        copies: of each token, in Repeated MLM.
    """
    device = next(model.parameters()).device
    pad = model.encoder.dictionary.pad()
    result, numbers = {}, sorted(set(atoms.molecule.tolist()), key=lambda i: len(samples[i]))
    size = max(1, BATCH_TOKENS // (len(samples[numbers[-1]]) * copies))
    for start in range(0, len(numbers), size):
        part = numbers[start : start + size]
        tokens = torch.nn.utils.rnn.pad_sequence([samples[i] for i in part], True, pad).to(device)
        features, _ = model.token_features(tokens.repeat_interleave(copies, dim=1))  # [B, copies T, d]
        features = features.unflatten(1, (-1, copies)).mean(2).float().cpu().numpy()
        result |= dict(zip(part, features, strict=True))
    return np.stack([result[i][t] for i, t in zip(atoms.molecule, atoms.place, strict=True)])


def linear_probe(
    vectors: np.ndarray, labels: np.ndarray, molecule: np.ndarray, *, values: bool, shuffle: int | None = None
) -> Mean:
    """How well a linear model of the vectors gives the labels of the molecules that it was not fitted to.

    Args:
        vectors: [A, d]; labels: [A], those that are NaN are left out; molecule: [A], the test are those whose
            number modulo 3 is 0.
        values: whether labels are values, not classes.
        shuffle: seed by which the training atoms' labels are shuffled.

    Returns:
        The share of right classes, or R^2; ``tokens`` are atoms and ``sentences`` molecules of the test.

    Raises:
        ValueError: if there are too few molecules to fit and to test.
    """
    known = np.isfinite(labels)
    vectors, labels, molecule = vectors[known], labels[known], molecule[known]
    test = molecule % 3 == 0
    if test.all() or not test.any():
        raise ValueError(f"{len(set(molecule))} molecules are too few for a probe: give more")
    fitted = labels[~test]
    if shuffle is not None:
        fitted = np.random.default_rng(shuffle).permutation(fitted)
    if not values and len(set(fitted)) == 1:
        predicted = np.full(test.sum(), fitted[0])
    else:
        linear = Ridge() if values else LogisticRegression(max_iter=1000, tol=1e-3)
        predicted = make_pipeline(StandardScaler(), linear).fit(vectors[~test], fitted).predict(vectors[test])
    return score(predicted, labels[test], molecule[test], values=values)


def score(predicted: np.ndarray, labels: np.ndarray, molecule: np.ndarray, *, values: bool) -> Mean:
    """The share of right classes, or R^2, of atoms [A]."""
    numbers, cluster = np.unique(molecule, return_inverse=True)
    parts = (predicted == labels, np.ones(len(labels)))
    if values:
        parts = ((predicted - labels) ** 2, (labels - labels.mean()) ** 2)
    meter = ClusteredMean()
    meter.add_sums(*(torch.from_numpy(np.bincount(cluster, part)) for part in parts))
    mean = meter.result()
    if not values:
        return mean
    return replace(mean, mean=1.0 - mean.mean, tokens=len(labels), sentences=len(numbers))


def atom_probe(checkpoint: Checkpoint, samples: Sequence[Tensor], *, seed: int = 1) -> dict:
    """What a linear model reads of an atom from a model's vectors of a molecule without masks.

    Of each atom the last layer's vector at its token is kept, frozen (of Repeated MLM the mean of its
    copies'), and a linear model is fitted to two thirds of the molecules and tested on the others:

    * hydrogens, degree (bonds to other atoms than hydrogen), ring (whether it is in one): logistic
      regression, the share of the test atoms that are right.
    * charge: Gasteiger's partial charge, by ridge regression, R^2.

    Beside the model: untrained, the same encoder as initialised; token, the atom's own token (one-hot)
    instead of a vector; shuffled, the model's vectors with the labels of the training atoms shuffled, which
    has to be no better than majority, the most frequent label (of charge, the mean). Standard errors take the
    atoms of a molecule as one cluster.

    Args:
        checkpoint: of SMILES.
        samples: [T] int64 each, a molecule between ``<s>`` and ``</s>``.
        seed: of the untrained encoder and of the shuffled labels.
    """
    atoms, copies = read_atoms(samples, checkpoint.dictionary), checkpoint.copies
    token, untrained = (
        atoms["token"].to_numpy()[:, None],
        untrained_model(checkpoint.cfg, checkpoint.dictionary, seed),
    )
    inputs = {
        "model": atom_vectors(checkpoint.model, samples, atoms, copies=copies),
        "untrained": atom_vectors(untrained.to(checkpoint.device).eval(), samples, atoms, copies=copies),
        "token": (token == np.unique(token)).astype(np.float32),
    }
    nothing, result = np.zeros((len(atoms), 1), np.float32), {}
    for name in LABELS:
        labels, molecule = atoms[name].to_numpy(), atoms["molecule"].to_numpy()
        options = {"labels": labels, "molecule": molecule, "values": name == "charge"}
        rows = {row: linear_probe(vectors, **options) for row, vectors in inputs.items()}
        rows["shuffled"] = linear_probe(inputs["model"], **options, shuffle=seed)
        rows["majority"] = linear_probe(nothing, **options)
        result[name] = rows
    return result
