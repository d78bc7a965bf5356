"""The probe gives what a direct computation over positions, paths or alignments gives."""

import itertools
import math

import pytest
import torch
from recipes.study import probe

from tests import builders


def batch(symbols):
    """Two sentences of different length, without masks, and which words to recover."""
    rows = [builders.sentence(symbols, n, [], seed=n)[0] for n in (7, 5)]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, True, symbols.pad())
    masked = torch.zeros_like(tokens, dtype=torch.bool)
    masked[0, [2, 5]] = masked[1, 3] = True
    return tokens, masked


def test_probe_of_an_mlm_is_its_prediction():
    symbols = builders.dictionary()
    model = builders.model("p_roberta_base", symbols, **builders.SMALL)
    tokens, masked = batch(symbols)
    found = probe.token_log_probs(model, tokens, masked)
    logits, _ = model(tokens.masked_fill(masked, symbols.index("<mask>")))
    torch.testing.assert_close(found, logits[masked].log_softmax(-1))
    repeated = probe.token_log_probs(model, tokens, masked, k=3)
    visible = tokens.masked_fill(masked, symbols.index("<mask>")).repeat_interleave(3, 1)
    probs = model(visible)[0].softmax(-1).unflatten(1, (-1, 3)).mean(2)
    torch.testing.assert_close(repeated.exp(), probs[masked])


def test_probe_of_repeated_mlm_is_the_mean_of_the_copies_probabilities():
    symbols = builders.dictionary()
    model = builders.model("p_roberta_base", symbols, **builders.SMALL, embedding_init_std=1.0)
    for layer in model.encoder.sentence_encoder.layers:  # so that the copies' places matter
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.out_proj):
            torch.nn.init.normal_(projection.weight)
    tokens, masked = batch(symbols)
    found = probe.token_log_probs(model, tokens, masked, k=3).exp()
    visible = tokens.masked_fill(masked, symbols.index("<mask>")).repeat_interleave(3, 1)
    copies = model(visible)[0].softmax(-1).unflatten(1, (-1, 3))[masked]  # [masked tokens, 3, V]
    assert (copies[:, 0] - copies[:, 2]).abs().max() > 0.1
    torch.testing.assert_close(found, copies.mean(1))
    torch.testing.assert_close(found.sum(-1), torch.ones(3))


@pytest.mark.parametrize("k", [1, 3])
def test_probe_of_exlm_is_the_sum_over_all_paths(k):
    symbols = builders.dictionary(6)
    model = builders.exlm(symbols, ext_state_num=k)
    tokens, masked = batch(symbols)
    found = probe.token_log_probs(model, tokens, masked).exp()
    visible = tokens.masked_fill(masked, symbols.index("<mask>"))
    targets = torch.where(masked, tokens, symbols.pad())
    row = 0
    with torch.no_grad():
        for b in range(len(tokens)):
            length = int(tokens[b].ne(symbols.pad()).sum())
            graph, _ = model(visible[b : b + 1, :length], target=targets[b : b + 1, :length])
            words, links = graph.logits()[0].softmax(-1), graph.links[0].exp()
            L, M = len(words), int(masked[b].sum()) + 2
            weight, expected = 0.0, torch.zeros(M, words.shape[1])
            for inner in itertools.combinations(range(1, L - 1), M - 2):
                path = (0, *inner, L - 1)
                probability = math.prod(float(links[u, v]) for u, v in itertools.pairwise(path))
                weight += probability
                expected += probability * words[list(path)]
            for i in range(1, M - 1):
                torch.testing.assert_close(found[row], expected[i] / weight, rtol=1e-4, atol=1e-6)
                row += 1
    assert row == len(found)


def test_probe_without_transitions_is_ctc():
    symbols = builders.dictionary(6)
    model = builders.exlm(symbols, ext_state_num=3)
    tokens, masked = batch(symbols)
    tokens, masked = tokens[:1], masked[:1]
    found = probe.token_log_probs(model, tokens, masked, ctc=True).exp()
    target = torch.where(masked, tokens, symbols.pad())
    graph, _ = model(tokens.masked_fill(masked, symbols.index("<mask>")), target=target)
    words = graph.logits()[0].softmax(-1).detach()
    blank = symbols.unk()
    for row, rank in enumerate((1, 2)):  # <s> is target 0
        scores = torch.zeros(len(symbols))
        for emitted in itertools.product(range(len(symbols)), repeat=3):
            runs = [word for word, _ in itertools.groupby(emitted) if word != blank]
            if len(runs) == 1:
                scores[runs[0]] += math.prod(float(words[3 * rank + i, w]) for i, w in enumerate(emitted))
        torch.testing.assert_close(found[row], scores / scores.sum(), rtol=1e-4, atol=1e-6)


def test_the_words_to_recover_are_drawn_by_seed_and_block():
    symbols = builders.dictionary()
    tokens, _ = builders.sentence(symbols, 40, [])

    def places(seed, block):
        return tuple(probe.mask_words(tokens, 0.2, symbols, seed, block).nonzero().flatten().tolist())

    drawn = [places(seed, block) for seed in (1, 2) for block in range(5)]
    assert len(set(drawn)) == 10  # a coincidence of 8 of 40 words is unlikely
    assert drawn == [places(seed, block) for seed in (1, 2) for block in range(5)]


def test_probe_masks_the_same_words_for_every_model():
    symbols = builders.dictionary()
    model = builders.model("p_roberta_base", symbols, **builders.SMALL)
    blocks = [builders.sentence(symbols, n, [], seed=n)[0] for n in (10, 20, 30)]
    masks = [probe.mask_words(block, 0.2, symbols, 1, i) for i, block in enumerate(blocks)]
    assert [int(mask.sum()) for mask in masks] == [2, 4, 6]
    assert not any(mask[0] or mask[-1] for mask in masks)
    result = probe.probe(model, blocks, 0.2)
    right = bits = 0
    for block, mask in zip(blocks, masks, strict=True):
        log_probs = probe.token_log_probs(model, block[None], mask[None])
        right += int((log_probs.argmax(-1) == block[mask]).sum())
        bits -= float(log_probs[range(len(log_probs)), block[mask]].sum()) / math.log(2)
    assert result["tokens"] == 12
    assert result["accuracy"] == pytest.approx(right / 12)
    assert result["bits"] == pytest.approx(bits / 12, rel=1e-5)
