"""Graphs of texts with masks, of random models; tests/scripts/test_explore.py has a trained one."""

import pickle

import pytest
import torch

from fs_plugins.inference import load
from tests.support import builders

TEXT = "this is <mask> news , and I am <mask> to see it ."
SPECIAL = {"<s>", "</s>", "<pad>", "<unk>", "<mask>"}


def test_the_graph_is_the_models(save_checkpoint):
    model = load(save_checkpoint("exlm_base", ext_state_num=2), device="cpu")
    model = pickle.loads(pickle.dumps(model))  # as joblib and multiprocessing do
    graph = model.graph(TEXT, top=len(builders.WORDS))
    assert graph.tokens == ["<s>", *TEXT.split(), "</s>"] and graph.unknown == []
    assert [(state.token, state.mask) for state in graph.states[::2]] == [(0, 0), (3, 1), (9, 2), (14, 0)]
    symbols = model.checkpoint.dictionary
    ids = torch.tensor([[0, *map(symbols.index, TEXT.split()), 2]])
    with torch.no_grad():
        expected, _ = model.checkpoint.model(ids)
    torch.testing.assert_close(torch.tensor(graph.transitions), expected.links[0].exp())
    probs = expected.logits()[0].softmax(-1)
    for u, state in enumerate(graph.states):
        for token in state.tokens:
            assert token.prob == pytest.approx(float(probs[u, symbols.index(token.symbol)]), rel=1e-4)
        top = probs[u].topk(len(builders.WORDS)).indices.tolist()
        assert [token.symbol for token in state.tokens] == [symbols[i] for i in top]


def test_the_decoding_says_where_its_tokens_go(save_checkpoint):
    best = load(save_checkpoint("exlm_base", ext_state_num=2, seed=3, spread=2.0)).graph(TEXT).best
    first, second = (piece.strip() for piece, mask in best.pieces if mask)
    assert best.text == f"this is {first} news , and I am {second} to see it ."
    assert [mask for _, mask in best.pieces] == [0, 1, 0, 2, 0] and len(best.states) == 4
    assert best.total_log_prob >= best.log_prob - 1e-9


def test_no_special_symbol_fills_a_mask(save_checkpoint):
    model = load(save_checkpoint("exlm_base", ext_state_num=2))
    with torch.no_grad():  # which all states predict
        model.checkpoint.model.encoder.lm_head.bias[2] += 30.0
    graph = model.graph(TEXT)
    assert graph.states[2].tokens[0].symbol == "</s>"
    assert not SPECIAL & {*graph.best.text.split()} and not SPECIAL & {*model.fill(TEXT).text.split()}


def test_a_molecule(save_checkpoint):
    path = save_checkpoint("exlm_base", ext_state_num=2, symbols=builders.dictionary(builders.ATOMS))
    builders.write_dictionary(path.parent, builders.ATOMS)
    graph = load(path, data=path.parent).graph("CC<mask>O")
    assert graph.best.pieces[0] == ("CC", 0) and graph.best.pieces[1][1] == 1
