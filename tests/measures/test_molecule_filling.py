"""Fillings come as often as they are probable, and are counted as RDKit reads them."""

import itertools
from collections import Counter

import pytest
import torch

from fs_plugins.inference.masked_prediction import MaskedPredictor
from fs_plugins.measures import molecule_filling
from fs_plugins.measures.masked_samples import MaskedBatch
from tests import oracles
from tests.support import builders

WORDS = builders.dictionary(4)


def batch() -> MaskedBatch:
    rows = [builders.sentence(WORDS, n, [], seed=n)[0] for n in (6, 4)]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, True, WORDS.pad())
    ranks = torch.zeros_like(tokens)
    ranks[0, [2, 3]], ranks[1, [1, 4]] = torch.tensor([1, 2]), torch.tensor([2, 1])
    return MaskedBatch(tokens, ranks, [7, 3])


@pytest.mark.slow
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("kind", ["mlm", "repeated", "exlm", "without transitions"])
def test_fillings_come_as_often_as_they_are_probable(kind, passes):
    """Chi-square of 4,000 fillings of two words against the model's exact probability of each pair, which in
    two passes is by the chain rule."""
    network = builders.mlm(WORDS) if kind in ("mlm", "repeated") else builders.exlm(WORDS, ext_state_num=3)
    options = {"copies": 2 if kind == "repeated" else 1, "ctc": kind == "without transitions"}
    predictor = MaskedPredictor(builders.trained(network), **options)
    some, draws = batch(), 4000
    drawn = list(molecule_filling.draw_fillings(predictor, some, draws, passes))
    assert [words.shape for words in drawn] == [(draws, 2), (draws, 2)]
    for b, words in enumerate(drawn):
        tokens, ranks = some.tokens[b : b + 1], some.ranks[b : b + 1]
        masked = ranks > 0
        seen, exact = Counter(), {}
        for pair in itertools.product(range(len(WORDS)), repeat=2):
            chosen = tokens.clone()
            chosen[masked] = torch.tensor(pair)
            if WORDS.pad() not in pair:  # the same as padding to the model: its probability is the rest
                steps = (
                    [(masked, masked)] if passes == 1 else [(masked, ranks == 1), (ranks == 2, ranks == 2)]
                )
                exact[pair] = float(sum(predictor.log_probs_of(chosen, *step)[1] for step in steps).exp())
        exact["rest"] = 1 - sum(exact.values())
        for pair in map(tuple, words.tolist()):
            seen["rest" if WORDS.pad() in pair else pair] += 1
        assert sum(probability * draws >= 5 for probability in exact.values()) > 8
        assert oracles.chi_square(seen, exact) > 0.001


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("build", [builders.mlm, builders.exlm])
def test_draws_depend_on_seed_and_number_and_not_on_the_batch(build, passes):
    predictor, some = MaskedPredictor(builders.trained(build(WORDS))), batch()

    def drawn(rows, T, numbers, seed=1):
        """Of these rows of the batch, cut to T tokens, under these numbers."""
        part = MaskedBatch(some.tokens[rows, :T], some.ranks[rows, :T], numbers)
        return list(molecule_filling.draw_fillings(predictor, part, 40, passes, seed))

    first, second = drawn([0, 1], 8, [7, 3])
    assert torch.equal(second, drawn([1], 6, [3])[0])
    others = [*drawn([0, 0], 8, [4, 5]), *drawn([0], 8, [7], seed=2)]
    assert all(not torch.equal(*pair) for pair in itertools.combinations([first, *others], 2))


def test_what_is_counted(monkeypatch, caplog):
    symbols = builders.dictionary(["C", "O", "N", "(", ")", "1"])
    said = {  # what the model puts for the one token that is masked
        "CCO": ["O", "N", "N", "(", "</s>"],  # the original if it replaces "O"
        "CC(": ["C", "C", "C", "C", "C"],  # no molecule itself, and left out
        "C1CC1": ["C", "C", "C", "C", "C"],
    }
    samples = builders.molecules(symbols, *said)

    def mask_last_atom(self, samples, share, seed):
        assert seed == 7
        for (number, sample), place in zip(enumerate(samples), (3, 2, 4), strict=True):
            ranks = torch.zeros_like(sample)
            ranks[place] = 1
            yield MaskedBatch(sample[None], ranks[None], [number])

    def draw(predictor, some, n, passes, seed):
        assert seed == 7
        words = list(said.values())[some.indices[0]]
        yield torch.tensor([[symbols.index(word)] for word in words])

    monkeypatch.setattr(molecule_filling, "batches_of", mask_last_atom)
    monkeypatch.setattr(molecule_filling, "draw_fillings", draw)
    predictor = MaskedPredictor(builders.mlm(symbols))
    found = molecule_filling.filling(predictor, samples, 0.2, fillings=5, seed=7)
    shares = {name: round(10 * found[name].mean, 6) for name in molecule_filling.MEASURES}
    # CCO, CCN twice; "CC(" is no SMILES, and nor is "CC</s>"; then C1CC1 five times
    assert shares == {"valid": 3 + 5, "equal": 1 + 5, "distinct": 2 + 1, "special": 1}
    assert (found["valid"].tokens, found["valid"].sentences) == (10, 2)
    assert found["unique"] == 3 / 8
    assert "1 samples are no molecules" in caplog.text
