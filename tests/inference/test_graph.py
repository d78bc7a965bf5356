"""Graphs of texts with masks, of random models; tests/scripts/test_explore.py has a trained one."""

import json

import pytest
import torch

from fs_plugins.inference import graph as graphs
from fs_plugins.inference import load
from tests.support import builders
from tests.support.builders import WORDS

TEXT = "this is <mask> news , and I am <mask> to see it ."
SPECIAL = {"<s>", "</s>", "<pad>", "<unk>", "<mask>"}


def test_the_graph_is_the_models(save_checkpoint):
    model = load(save_checkpoint("exlm_base", ext_state_num=2), device="cpu")
    graph = model.graph(TEXT, top=len(WORDS))
    assert graph.tokens == ["<s>", *TEXT.split(), "</s>"] and graph.unknown == graph.notes == []
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
        top = probs[u].topk(len(WORDS)).indices.tolist()
        assert [token.symbol for token in state.tokens] == [symbols[i] for i in top]


def test_decodings_say_where_their_tokens_go(save_checkpoint):
    path = save_checkpoint("exlm_base", ext_state_num=2, seed=3, spread=2.0)
    graph = load(path).graph(TEXT, samples=40)
    for decoding in [graph.best, *graph.samples]:  # token i fills mask i
        first, second = (piece.strip() for piece, mask in decoding.pieces if mask)
        assert decoding.text == f"this is {first} news , and I am {second} to see it ."
        assert len(decoding.states) == 4
    json.dumps(graph.to_dict(), allow_nan=False)
    assert graph.best.log_prob >= max(decoding.log_prob for decoding in graph.samples)
    lengths = set()
    for decoding in [graph.best_free, *graph.samples_free]:  # tokens go where their states stand
        assert "".join(piece for piece, _ in decoding.pieces) == decoding.text
        own = {mask: piece.split() for piece, mask in decoding.pieces if mask}
        inside = [graph.states[u].mask for u in decoding.states[1:-1]]
        assert all(len(own.get(mask, [])) == inside.count(mask) for mask in (1, 2))
        lengths.add(len(inside))
    assert len(lengths) > 2
    assert graph.best_free.log_prob >= max(d.log_prob for d in [*graph.samples, *graph.samples_free])
    for decoding in graph.samples + graph.samples_free:
        assert decoding.total_log_prob >= decoding.log_prob - 1e-9
        assert not SPECIAL & set(decoding.text.split())


def test_a_text_is_shown_once_with_its_likeliest_path(save_checkpoint, monkeypatch):
    model = load(save_checkpoint("exlm_base", ext_state_num=2, seed=3, spread=2.0))
    shown = {decoding.text: decoding for decoding in model.graph(TEXT, samples=2000).samples}
    monkeypatch.setattr(graphs, "_counted", lambda decodings: decodings)
    drawn = {}
    for decoding in model.graph(TEXT, samples=2000).samples:
        drawn.setdefault(decoding.text, []).append(decoding.log_prob)
    assert {text: (d.log_prob, d.count) for text, d in shown.items()} == {
        text: (max(log_probs), len(log_probs)) for text, log_probs in drawn.items()
    }
    assert sum(len(set(log_probs)) > 1 for log_probs in drawn.values()) > 5


def test_no_special_symbol_fills_a_mask(save_checkpoint):
    model = load(save_checkpoint("exlm_base", ext_state_num=2))
    with torch.no_grad():  # which all states predict
        model.checkpoint.model.encoder.lm_head.bias[2] += 30.0
    graph, filled = model.graph(TEXT, samples=5), model.fill(TEXT)
    assert graph.states[2].tokens[0].symbol == "</s>"
    for text in (filled.text, graph.best.text, graph.best_free.text, *(s.text for s in graph.samples_free)):
        assert not SPECIAL & set(text.split())
    assert not SPECIAL & {token.symbol for mask in filled.masks for token in mask}


def test_other_models(save_checkpoint):
    """One without transitions, and one of molecules; tests/scripts/test_explore.py has one without states."""
    path = save_checkpoint("exlm_base", criterion="nat_ctc_loss_mlm", ext_state_num=2)
    (note,) = load(path).graph(TEXT).notes
    assert "nat_ctc_loss_mlm" in note
    path = save_checkpoint("exlm_base", ext_state_num=2, symbols=builders.dictionary(builders.ATOMS))
    builders.write_dictionary(path.parent, builders.ATOMS)
    graph = load(path, data=path.parent).graph("CC<mask>O")
    assert graph.of_molecule and graph.best.pieces[0] == ("CC", 0) and graph.best.pieces[1][1] == 1
