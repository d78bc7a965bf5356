"""Filling the masks of sentences with trained and random models."""

import json

import pytest
import torch

from fs_plugins.inference import load
from tests.builders import WORDS

TEXT = "this is <mask> news , and I am <mask> to see it ."


def test_a_model_trained_by_fairseq_is_loaded_and_read(pretrained):
    explorer = load(pretrained)  # no --data: the folder that the checkpoint names
    filling = explorer.fill(TEXT, top=4, samples=3)
    assert (filling.masks, filling.k) == (2, 3)
    assert filling.tokens == ["<s>", *TEXT.split(), "</s>"]
    assert filling.unknown == filling.notes == []
    assert explorer.fill("this is <mask> weather , Sir").unknown == ["weather", "Sir"]
    assert explorer.fill("<mask><mask> <mask>", samples=0).masks == 3
    groups = [node.group for node in filling.nodes]
    assert groups == ["<s>"] * 3 + ["mask 1"] * 3 + ["mask 2"] * 3 + ["</s>"] * 3
    assert [node.copy for node in filling.nodes] == [1, 2, 3] * 4
    assert [node.token for node in filling.nodes] == [i for i in (0, 3, 9, 14) for _ in range(3)]
    for node in filling.nodes:
        probs = [word.prob for word in node.words]
        assert len(probs) == 4 and probs == sorted(probs, reverse=True) and 0 < sum(probs) <= 1
    assert len(filling.samples) == len(filling.samples_free) == 3
    json.dumps(filling.to_dict(), allow_nan=False)


def test_the_graph_is_the_models(save_checkpoint):
    path = save_checkpoint("exlm_base", ext_state_num=2)
    explorer = load(path, device="cpu")
    filling = explorer.fill(TEXT, top=len(WORDS))
    symbols = explorer.checkpoint.dictionary
    ids = torch.tensor([[0, *map(symbols.index, TEXT.split()), 2]])
    with torch.no_grad():
        graph, _ = explorer.checkpoint.model(ids)
    torch.testing.assert_close(torch.tensor(filling.transitions), graph.links[0].exp())
    probs = graph.logits()[0].softmax(-1)
    for u, node in enumerate(filling.nodes):
        for word in node.words:
            assert word.prob == pytest.approx(float(probs[u, symbols.index(word.symbol)]), rel=1e-4)
        top = probs[u].topk(len(WORDS)).indices.tolist()
        assert [word.symbol for word in node.words] == [symbols[i] for i in top]


def test_readings_say_where_their_words_go(save_checkpoint):
    path = save_checkpoint("exlm_base", ext_state_num=2, seed=3, spread=2.0)
    filling = load(path).fill(TEXT, samples=40)
    for reading in [filling.best, *filling.samples]:  # word i fills mask i
        first, second = reading.words
        assert reading.text == f"this is {first} news , and I am {second} to see it ."
        assert len(reading.nodes) == 4
    assert filling.best.log_prob >= max(reading.log_prob for reading in filling.samples)
    lengths = set()
    for reading in [filling.best_free, *filling.samples_free]:  # words go where their nodes stand
        at = dict.fromkeys((0, 3, 9, 14), "")
        for u, word in zip(reading.nodes[1:-1], reading.words, strict=True):
            at[filling.nodes[u].token] += f"{word} "
        expected = f"{at[0]}this is {at[3]}news , and I am {at[9]}to see it . {at[14]}"
        assert reading.text == expected.strip()
        lengths.add(len(reading.words))
    assert len(lengths) > 2
    best = filling.best_free.log_prob
    assert best >= max(r.log_prob for r in [*filling.samples, *filling.samples_free])
    for reading in filling.samples + filling.samples_free:
        assert reading.total_log_prob >= reading.log_prob - 1e-9


def test_other_models(save_checkpoint):
    path = save_checkpoint("exlm_base", criterion="nat_ctc_loss_mlm", ext_state_num=2)
    (note,) = load(path).fill(TEXT).notes
    assert "nat_ctc_loss_mlm" in note and "transitions" in note
    with pytest.raises(ValueError, match="vanilla .*--arch p_roberta_base.* exlm_"):
        load(save_checkpoint("p_roberta_base"))
