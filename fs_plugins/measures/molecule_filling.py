"""Filling molecules: what a model puts where tokens of a molecule are masked, and whether it is one."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from fs_plugins.criterions.state_use import is_word
from fs_plugins.data.molecules import canonical_smiles, parse_molecule
from fs_plugins.inference.decodings import GraphDecoder
from fs_plugins.inference.masked_prediction import MaskedPredictor
from fs_plugins.measures.masked_samples import SEED, MaskedBatch, batches_of
from fs_plugins.measures.means import ClusteredMean

logger = logging.getLogger(__name__)

FILLINGS = 10
MEASURES = ("valid", "equal", "distinct", "special")


def draw_fillings(
    predictor: MaskedPredictor, batch: MaskedBatch, n: int, passes: int = 1, seed: int = SEED
) -> Iterator[Tensor]:
    """Yields for each sample of the batch ``n`` fillings [n, masked words] int64, drawn independently, each
    in ``passes`` passes over the groups of ``MaskedBatch.groups``. They depend on the seed, the sample's
    number and ``n``, not on the batch."""
    seeds = [
        np.random.SeedSequence((seed, number, n)).generate_state(1, np.uint64) for number in batch.indices
    ]
    generators = [torch.Generator().manual_seed(int(state[0] >> np.uint64(1))) for state in seeds]
    filled, unknown, B = batch.tokens.repeat_interleave(n, 0), batch.masked, len(batch.tokens)
    for i, group in enumerate(batch.groups(passes)):
        if i == 0:  # all fillings of a sample still are alike
            rows = _draw(predictor, batch.tokens, unknown, generators, n)
        else:
            repeated = [generator for generator in generators for _ in range(n)]
            rows = _draw(predictor, filled, unknown.repeat_interleave(n, 0), repeated, 1)
        words = torch.cat([row.flatten() for row in rows]).to(filled.device)
        filled[unknown.repeat_interleave(n, 0)] = words  # those of later groups are drawn again
        unknown = unknown & ~group
    for tokens, masked in zip(filled.unflatten(0, (B, n)), batch.masked, strict=True):
        yield tokens[:, masked].cpu()


def _draw(
    predictor: MaskedPredictor, tokens: Tensor, masked: Tensor, generators: Sequence[torch.Generator], n: int
) -> Iterator[Tensor]:
    """Yields for each row [n, masked words] int64, drawn with a generator of its own."""
    if not predictor.has_transitions:
        rows = predictor.token_log_probs(tokens, masked).exp().cpu().split(masked.sum(1).tolist())
        for row, generator in zip(rows, generators, strict=True):
            if len(row) == 0:
                yield torch.zeros(n, 0, dtype=torch.int64)
            else:
                yield torch.multinomial(row, n, replacement=True, generator=generator).t()
        return
    graph = predictor.graph(tokens, masked)
    layout, is_masked = graph.graph.layout, graph.is_masked.cpu()
    bos, eos = predictor.dictionary.bos(), predictor.dictionary.eos()
    for b, generator in enumerate(generators):
        L, M = int(layout.node_lengths[b]), int(layout.target_lengths[b])
        log_probs = graph.graph.log_probs(b).double().log_softmax(-1).cpu()
        decoder = GraphDecoder(log_probs, graph.graph.links[b, :L, :L].cpu(), bos, eos)
        paths = decoder.sample(generator, n, M - 2)
        if not paths:
            raise ValueError(f"the model has no path of {M} nodes through its {L}, one for each target")
        yield torch.tensor([path.words for path in paths], dtype=torch.int64)[:, is_masked[b, 1 : M - 1]]


def molecule_of(tokens: Tensor, dictionary: Dictionary) -> str | None:
    """Returns the canonical SMILES of tokens [T]; None if RDKit cannot read them."""
    smiles = "".join(dictionary[i] for i in tokens.tolist())
    try:
        return canonical_smiles(parse_molecule(smiles), smiles)
    except ValueError:
        return None


def filling(
    predictor: MaskedPredictor,
    samples: Sequence[Tensor],
    share: float,
    *,
    fillings: int = FILLINGS,
    passes: int = 1,
    seed: int = SEED,
) -> dict:
    """Filling of molecules: a share of the tokens is masked, the same for every model, and filled again.

    A filling is drawn from what the model says of all masked tokens together (fs_plugins/inference/
    masked_prediction.py): by an MLM, and by ExLM w/o transitions, each token by itself; by ExLM a path
    through its graph of as many nodes as there are targets, then the word of each node. With several passes,
    it is filled group by group (see ``joint``). Given are shares of all fillings; standard errors take the
    fillings of a molecule as one cluster:

    * valid: RDKit can read it.
    * equal: it is the original molecule (the same canonical SMILES).
    * distinct: valid, and not the same molecule as another filling counted of the same original.
    * special: with a symbol that is no token of a molecule, such as <s>; never valid.

    unique is the share of all valid fillings that are different molecules.

    Args:
        samples: [T] int64 each, a molecule between ``<s>`` and ``</s>``.

    Returns:
        The measures, each a :class:`Mean` whose ``tokens`` are fillings and ``sentences`` molecules, and
        ``unique``.
    """
    dictionary, skipped = predictor.dictionary, 0
    special = torch.tensor([*range(dictionary.nspecial), dictionary.index("<mask>")])
    meters, found = {name: ClusteredMean() for name in MEASURES}, Counter()
    for batch in batches_of(predictor, samples, share, seed):
        for b, words in enumerate(draw_fillings(predictor, batch, fillings, passes, seed)):
            tokens, masked = batch.tokens[b].cpu(), batch.masked[b].cpu()
            inside = is_word(tokens, dictionary)
            original = molecule_of(tokens[inside], dictionary)
            if original is None:
                skipped += 1
                continue
            filled = tokens.repeat(fillings, 1)
            filled[:, masked] = words
            molecules = [molecule_of(row[inside], dictionary) for row in filled]
            found.update(molecule for molecule in molecules if molecule is not None)
            counts = {
                "valid": sum(molecule is not None for molecule in molecules),
                "equal": molecules.count(original),
                "distinct": len(set(molecules) - {None}),
                "special": int(torch.isin(words, special).any(1).sum()),
            }
            for name, count in counts.items():
                meters[name].add_sums(torch.tensor([count]), torch.tensor([fillings]))
    if skipped:
        logger.warning("%d samples are no molecules that RDKit can read, and are left out", skipped)
    results = {name: meter.result() for name, meter in meters.items()}
    unique = len(found) / found.total() if found else None
    return {"mask_prob": share, "passes": passes, "fillings": fillings, **results, "unique": unique}
