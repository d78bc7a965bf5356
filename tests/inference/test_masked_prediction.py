"""What an ExLM says of masked words is what all paths give; tests/huggingface has the other models."""

import math

import pytest
import torch

from fs_plugins.checkpoint import load
from fs_plugins.inference.masked_prediction import MaskedPredictor
from tests import oracles
from tests.support import builders


def batch(symbols):
    """Two sentences of different length, without masks, and which words are to be masked."""
    rows = [builders.sentence(symbols, n, [], seed=n)[0] for n in (7, 5)]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, True, symbols.pad())
    masked = torch.zeros_like(tokens, dtype=torch.bool)
    masked[0, [2, 5]] = masked[1, 3] = True
    return tokens, masked


def sentences(model, symbols, tokens, masked):
    """Of each sentence by itself: words [L, V], log links [L, L], which of its M targets are masked words."""
    visible = tokens.masked_fill(masked, symbols.index("<mask>"))
    targets = torch.where(masked, tokens, symbols.pad())
    for b in range(len(tokens)):
        length = int(tokens[b].ne(symbols.pad()).sum())
        graph, _ = model(visible[b : b + 1, :length], target=targets[b : b + 1, :length])
        expanded = masked[b, :length] | tokens[b, :length].eq(symbols.eos())
        expanded[0] = True
        words = graph.logits()[0].double().softmax(-1)
        yield words, graph.links[0].double(), masked[b, :length][expanded]


@pytest.mark.parametrize(("kind", "copies"), [("mlm", 1), ("repeated", 3), ("ctc", 1)])
def test_predictions_without_transitions(kind, copies, checkpoints):
    """By their definition, of the visible words alone; words are independent."""
    model = load(checkpoints[kind], device="cpu").model
    tokens, masked = batch(model.dictionary)
    with torch.no_grad():
        if kind == "ctc":
            alone = sentences(model, model.dictionary, tokens, masked)
            states = [words.log().unflatten(0, (-1, 3))[is_word].mT for words, _, is_word in alone]
            scores = [[oracles.ctc_log_prob(w, s[3]) for w in s] for s in torch.cat(states).tolist()]
            probs = torch.tensor(scores).index_fill(1, torch.tensor([3]), -math.inf).softmax(-1)
        else:
            visible = tokens.masked_fill(masked, model.dictionary.index("<mask>"))
            probs = model(visible.repeat_interleave(copies, 1))[0].softmax(-1)
            probs = probs.unflatten(1, (-1, copies)).mean(2)[masked]
    predictor = MaskedPredictor(model, copies=copies, ctc=kind == "ctc")
    torch.testing.assert_close(predictor.token_log_probs(tokens, masked).exp(), probs, rtol=1e-4, atol=1e-6)
    each, joint = predictor.log_probs_of(tokens, masked)
    right = probs.gather(1, tokens[masked][:, None]).log().flatten()
    torch.testing.assert_close(each[masked], right, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(joint, torch.stack([right[:2].sum(), right[2]]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("improbable", [0, 150])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_predictions_of_exlm_are_sums_over_all_paths(k, improbable):
    """Also of words whose probability float32 does not have."""
    symbols = builders.dictionary(6)
    model = builders.trained(builders.exlm(symbols, ext_state_num=k, embedding_init_std=1.0))
    tokens, masked = batch(symbols)
    tokens[0, 4] = symbols.eos()  # of a sentence that is not the sample's last one
    model.encoder.lm_head.bias.data[tokens[0, 2]] -= improbable
    predictor = MaskedPredictor(model)
    each, joint = predictor.log_probs_of(tokens, masked)
    found = iter(predictor.token_log_probs(tokens, masked).exp())
    assert each.shape == tokens.shape and (each[~masked] == 0).all()
    with torch.no_grad():
        for b, (words, links, is_word) in enumerate(sentences(model, symbols, tokens, masked)):
            pairs = [*zip(is_word.nonzero().flatten().tolist(), tokens[b][masked[b]].tolist(), strict=True)]
            n, m = len(links), len(is_word)
            scores, paths = zip(*oracles.path_scores(torch.zeros(m, n), links, n, m), strict=True)
            paths = [*zip(torch.tensor(scores).double().softmax(0).tolist(), paths, strict=True)]
            total = sum(p * math.prod(float(words[path[i], y]) for i, y in pairs) for p, path in paths)
            assert joint[b].item() == pytest.approx(math.log(total), rel=1e-4)
            for (i, y), log_prob in zip(pairs, each[b][masked[b]].tolist(), strict=True):
                marginal = sum(weight * words[path[i]] for weight, path in paths)
                torch.testing.assert_close(next(found).double(), marginal, rtol=1e-4, atol=1e-6)
                assert log_prob == pytest.approx(math.log(float(marginal[y])), rel=1e-4)
    if k == 3:
        assert abs(float(each[0].sum() - joint[0])) > 0.01  # two words, which depend on each other
    assert float(each[1].sum()) == pytest.approx(float(joint[1]), rel=1e-4)  # a single one
