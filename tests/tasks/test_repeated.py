"""Repeated MLM: batches and the corrupted proportion."""

import math

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from fs_plugins.tasks.repeated_masked_lm import RepeatedMaskedLMConfig, RepeatedMaskedLMTask
from tests.support import builders

WORDS = builders.dictionary(50)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("corpus"), np.random.default_rng(1)
    builders.write_split(folder, "train", builders.rows(WORDS, rng.integers(3, 30, 400), rng), WORDS)
    return folder


def load(task_class, config_class, corpus, **settings):
    config = config_class(data=str(corpus), **{"tokens_per_sample": 64, "seed": 3, **settings})
    task = task_class.setup_task(config)
    task.load_dataset("train")
    return task


def repeated(corpus, k, **settings):
    return load(RepeatedMaskedLMTask, RepeatedMaskedLMConfig, corpus, repeat_times=k, **settings)


def batches(task, sentences=8):
    limits = {"max_sentences": sentences, "max_positions": task.max_positions(), "seed": 1}
    iterator = task.get_batch_iterator(task.dataset("train"), ignore_invalid_inputs=True, **limits)
    return list(iterator.next_epoch_itr(shuffle=False))


@pytest.mark.parametrize("mode", ["none", "eos"])
def test_once_is_fairseqs_masked_lm(corpus, mode):
    settings = {"sample_break_mode": mode, "random_token_prob": 0.2, "leave_unmasked_prob": 0.1}
    ours = batches(repeated(corpus, 1, **settings))
    theirs = batches(load(MaskedLMTask, MaskedLMConfig, corpus, **settings))
    assert len(ours) > 1
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    with pytest.raises(ValueError, match="--repeat-times .* 0"):
        repeated(corpus, 0)


def test_every_token_stands_k_times(corpus):
    once, four = repeated(corpus, 1), repeated(corpus, 4)
    assert (once.max_positions(), four.max_positions()) == (64, 256)
    for a, b in zip(batches(once), batches(four), strict=True):
        originals = [
            torch.where(x["target"].ne(WORDS.pad()), x["target"], x["net_input"]["src_tokens"])
            for x in (a, b)
        ]
        assert torch.equal(originals[1], originals[0].repeat_interleave(4, dim=1))
        assert torch.equal(b["net_input"]["src_lengths"], 4 * a["net_input"]["src_lengths"])
        assert b["ntokens"] == 4 * a["ntokens"]
        assert originals[1][:, :4].eq(WORDS.bos()).all()


class NoModel(torch.nn.Module):
    """A criterion's and model's place, where only batches are looked at."""

    def forward(self, *_):
        return torch.zeros(()), 1, {"loss": 0.0, "sample_size": 1, "ntokens": 1, "nsentences": 1}

    @staticmethod
    def reduce_metrics(logs):
        metrics.log_scalar("loss", len(logs))


@pytest.mark.parametrize(("k", "p"), [(1, 0.0225), (2, 0.387), (4, 0.622), (8, 0.789)])
def test_corrupted_proportion_is_that_of_the_paper(corpus, k, p):
    """Figure 4, from real batches: p^k within 3 standard errors (appendix C's variance)."""
    task = repeated(corpus, k, mask_prob=p, leave_unmasked_prob=0.0, random_token_prob=0.0)
    logs = [task.valid_step(batch, NoModel().eval(), NoModel())[2] for batch in batches(task, 32)]
    tokens = sum(int(log["original_tokens"]) for log in logs)
    corrupted = sum(int(log["corrupted"]) for log in logs)
    assert tokens > 6000
    assert abs(corrupted / tokens - p**k) < 3 * math.sqrt(p**k * (1 - p**k) / tokens)
    masked = sum(int(b["target"].ne(WORDS.pad()).sum()) for b in batches(task, 32))
    assert masked / (tokens * k) == pytest.approx(p, abs=0.01)
    with metrics.aggregate() as logged:
        task.reduce_metrics(logs, NoModel())
    values = logged.get_smoothed_values()
    assert values["corrupted"] == pytest.approx(corrupted / tokens, abs=1e-5) and values["loss"] == len(logs)
