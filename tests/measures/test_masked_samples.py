"""The words to mask are the same for every model, and samples are those of pre-training."""

from types import SimpleNamespace

import pytest
import torch

from fs_plugins.checkpoint import load as load_checkpoint
from fs_plugins.measures.masked_samples import batches_of, load_samples, mask_words
from tests.support import builders


def test_masked_words_are_drawn_by_seed_and_number():
    symbols = builders.dictionary()
    tokens, _ = builders.sentence(symbols, 40, [])

    def places(seed, index):
        return tuple(mask_words(tokens, 0.2, symbols, seed, index).nonzero().flatten().tolist())

    drawn = [places(seed, index) for seed in (1, 2) for index in range(5)]
    assert len(set(drawn)) == 10  # a coincidence of 8 of 40 words is unlikely
    assert drawn == [places(seed, index) for seed in (1, 2) for index in range(5)]
    assert {len(found) for found in drawn} == {8} and all(0 < i <= 40 for found in drawn for i in found)


def test_batches_hold_every_sample_once_with_its_own_masks():
    symbols = builders.dictionary()
    samples = [builders.sentence(symbols, n, [], seed=n)[0] for n in (30, 10, 700, 20, 900)]
    samples.insert(2, torch.tensor([symbols.bos(), symbols.eos()]))  # no word to mask
    for states in (1, 4):
        found = {}
        model = SimpleNamespace(model=torch.nn.Linear(1, 1), dictionary=symbols, expansion=states)
        batches = list(batches_of(model, samples, 0.2))
        for batch in batches:
            assert len(batch.tokens) == 1 or batch.tokens.numel() * states <= 4096
            for row, number in enumerate(batch.indices):
                length = len(samples[number])
                assert torch.equal(batch.tokens[row, :length], samples[number])
                assert (batch.tokens[row, length:] == symbols.pad()).all()
                assert not batch.masked[row, length:].any()
                found[number] = batch.masked[row, :length]
        assert sorted(found) == [0, 1, 3, 4, 5] and 1 < len(batches) < 5
        for number, masked in found.items():
            assert torch.equal(masked, mask_words(samples[number], 0.2, symbols, 1, number))


def test_samples_are_those_of_the_training(pretrained, tmp_path):
    checkpoint = load_checkpoint(pretrained, device="cpu")
    symbols = checkpoint.dictionary
    samples = load_samples(checkpoint, count=5)  # --sample-break-mode eos
    assert [symbols.string(sample) for sample in samples][2] == "it is good , I see ."
    assert len(samples) == 5 and all(s[0] == symbols.bos() and s[-1] == symbols.eos() for s in samples)
    assert [len(s) for s in load_samples(checkpoint, count=2, max_tokens=8)] == [7, 7]
    assert len(load_samples(checkpoint, max_tokens=7)) == 4
    with pytest.raises(ValueError, match="nowhere: there is no such split: see --split"):
        load_samples(checkpoint, split="nowhere")
    longest, checkpoint.cfg.task.tokens_per_sample = checkpoint.cfg.task.tokens_per_sample, 7
    assert len(load_samples(checkpoint)) == 4  # none longer than the training's
    checkpoint.cfg.task.tokens_per_sample = longest
    blocks = load_samples(checkpoint, break_mode="none")
    assert {len(block) for block in blocks[:-1]} == {32}
    words = [torch.cat([one[1:] for one in some]) for some in (load_samples(checkpoint), blocks)]
    assert torch.equal(*words)
    builders.write_split(tmp_path, "valid", [[2], [7, 2], [2], [8, 9, 2], [2], [6, 2]], symbols)
    checkpoint.data = tmp_path  # with empty sentences between documents
    assert [len(s) for s in load_samples(checkpoint, count=2)] == [3, 4]
