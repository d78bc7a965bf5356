"""Atoms and their labels are RDKit's, vectors those of their tokens, and the probe finds what is there."""

from functools import partial

import numpy as np
import pytest
import torch

from fs_plugins.checkpoint import load_checkpoint, untrained_model
from fs_plugins.measures import atom_probe
from tests.support import builders

SYMBOLS = builders.dictionary(builders.ATOMS)
samples = partial(builders.molecules, SYMBOLS)


def test_labels_of_atoms():
    atoms = atom_probe.read_atoms(samples("ClC(=O)N", "c1ccccc1C"), SYMBOLS)
    assert atoms.molecule.tolist() == [0] * 4 + [1] * 7
    assert atoms.place[:4].tolist() == [1, 2, 5, 7] and atoms.place[4:7].tolist() == [1, 3, 4]
    assert [SYMBOLS[i] for i in atoms.token] == ["Cl", "C", "O", "N", *"cccccc", "C"]
    assert atoms["hydrogens"].tolist() == [0, 0, 0, 2, 1, 1, 1, 1, 1, 0, 3]
    assert atoms["degree"].tolist() == [1, 3, 1, 1, 2, 2, 2, 2, 2, 3, 1]
    assert atoms["ring"].tolist() == [0] * 4 + [1] * 6 + [0]
    chlorine, carbon, oxygen, nitrogen = atoms["charge"][:4]
    assert carbon > 0.2 > 0 > chlorine and oxygen < -0.2 and nitrogen < -0.2


def test_what_is_no_molecule_or_loses_atoms_is_left_out(caplog):
    atoms = atom_probe.read_atoms(samples("CC(", "CC", "[H]C", "C[NH3+]"), SYMBOLS)
    assert atoms.molecule.tolist() == [1, 1, 3, 3]
    assert "2 of 4 samples are left out" in caplog.text
    with pytest.raises(ValueError, match="no molecule"):
        atom_probe.read_atoms(samples("CC("), SYMBOLS)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("kind", ["mlm", "exlm"])
def test_vectors_are_those_of_the_atoms_tokens(kind, copies):
    model = builders.mlm(SYMBOLS) if kind == "mlm" else builders.exlm(SYMBOLS, ext_state_num=2)
    some = samples("ClC(=O)N", "c1ccccc1C", "CO")
    atoms = atom_probe.read_atoms(some, SYMBOLS)
    found = atom_probe.atom_vectors(model, some, atoms, copies=copies)
    row = 0
    for number, sample in enumerate(some):
        repeated = sample.repeat_interleave(copies)[None]
        with torch.no_grad():
            states = model(repeated, features_only=True)[0][0]
        first = 0 if kind == "mlm" else copies  # <s>, or each of its copies, has two states
        for place in atoms.place[atoms.molecule == number]:
            start = first + place * copies
            expected = states[start : start + copies].mean(0)
            torch.testing.assert_close(torch.from_numpy(found[row]), expected, rtol=0, atol=1e-5)
            row += 1
    assert row == len(found) == 13


def planted(seed=0):
    """Vectors in which labels are a linear function among noise, of 90 molecules of 20 atoms."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(1800, 10)).astype(np.float32)
    hidden = vectors @ rng.normal(size=10)
    return vectors, hidden, np.repeat(np.arange(90), 20)


def test_a_linear_probe_finds_what_is_linear_and_nothing_in_shuffled_labels():
    vectors, hidden, molecule = planted()
    classes = (hidden > np.quantile(hidden, 0.4)).astype(int)
    for labels, values in ((classes, False), (hidden, True)):
        found = atom_probe.linear_probe(vectors, labels, molecule, values=values)
        base = atom_probe.linear_probe(np.zeros((len(labels), 1)), labels, molecule, values=values)
        shuffled = atom_probe.linear_probe(vectors, labels, molecule, values=values, shuffle=1)
        assert found.mean > 0.97 and (found.tokens, found.sentences) == (600, 30)
        assert base.mean == pytest.approx(0.0 if values else 0.6, abs=0.04)
        assert shuffled.mean < base.mean + 0.1  # what 10 directions fitted to 1,200 atoms may give by chance
        if values:  # unknown labels do not count
            unknown = np.where(np.arange(len(labels)) % 7 == 0, np.nan, labels)
            kept = atom_probe.linear_probe(vectors, unknown, molecule, values=True)
            assert kept.mean > 0.97 and kept.tokens == np.isfinite(unknown[molecule % 3 == 0]).sum()
        noise = np.random.default_rng(5).normal(size=vectors.shape)
        assert atom_probe.linear_probe(noise, labels, molecule, values=values).mean < base.mean + 0.1


def test_scores_and_their_errors():
    molecule = np.array([0, 0, 3, 3, 3, 6])
    right = atom_probe.score(np.array([1, 0, 1, 1, 1, 0]), np.ones(6), molecule, values=False)
    assert (right.mean, right.tokens, right.sentences) == (pytest.approx(4 / 6), 6, 3)
    labels, said = np.array([1.0, 2, 3, 4, 5, 6]), np.array([1.5, 2, 3, 4, 5, 5])
    explained = atom_probe.score(said, labels, molecule, values=True)
    assert explained.mean == pytest.approx(1 - 1.25 / 17.5) and explained.tokens == 6
    assert 0 < explained.standard_error < 0.1


def test_an_untrained_model_is_that_of_its_seed(pretrained):
    checkpoint = load_checkpoint(pretrained, device="cpu")
    state = torch.random.get_rng_state()
    weights = [
        untrained_model(checkpoint.cfg, checkpoint.dictionary, seed).encoder.lm_head.dense.weight
        for seed in (1, 1, 2)
    ]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert not torch.equal(weights[0], checkpoint.model.encoder.lm_head.dense.weight)
    assert torch.equal(torch.random.get_rng_state(), state)
